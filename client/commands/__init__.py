"""The commands of `dayflow`, one file for each group; each exports `register(app)`."""
