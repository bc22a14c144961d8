"""Interface to Ansible: execution of playbooks, and the code behind the collection's action plugins."""
