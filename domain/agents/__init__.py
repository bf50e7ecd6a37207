"""The agents, one per file; each file exports `AGENT`."""
