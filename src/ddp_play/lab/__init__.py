"""Lab: a cluster on one machine, whose hosts are containers with systemd, sshd and their own Docker daemon."""
