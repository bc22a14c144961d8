"""Provisioning of hosts around the roles: the inventory, its check, the phases, the table of what became of them."""
