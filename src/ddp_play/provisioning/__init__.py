"""Provisioning of hosts by roles: the inventory, its check, the phases, the run, the table of results."""
