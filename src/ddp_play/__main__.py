"""`python -m ddp_play` is `ddp-play`."""

from ddp_play.cli.main import main

main()
