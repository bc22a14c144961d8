"""Command line of ddp-play: one module per verb, which reads options, calls the other packages and prints."""
