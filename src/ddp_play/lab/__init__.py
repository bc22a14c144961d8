"""A cluster on one machine: hosts as containers with systemd, sshd and a Docker daemon of their own."""
