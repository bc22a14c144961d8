"""The one seam to Ansible: running playbooks, and what the collection's action plugins call."""
