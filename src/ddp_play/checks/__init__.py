"""Checks of the controller and of hosts before work: facts in, findings with a remedy out."""
