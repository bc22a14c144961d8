"""One run, from its submission over its attempts to its clean-up on the hosts."""
