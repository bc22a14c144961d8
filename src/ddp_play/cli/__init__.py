"""The command: thin files, one per verb, over the other packages."""
