"""The command: thin files, one per verb, over `ddp_play.workflows`."""
