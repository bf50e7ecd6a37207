"""The way in: the typed client and the `dayflow` command."""
