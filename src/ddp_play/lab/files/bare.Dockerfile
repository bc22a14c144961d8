# A host of the lab without an engine: systemd, sshd, Python, two users.
# The date of the emptied lists is what tells Ansible's apt that they are not up to date.
ARG ROOT
FROM ${ROOT}
ENV container=docker LC_ALL=C.UTF-8
RUN export DEBIAN_FRONTEND=noninteractive \
 && apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates dbus iproute2 iptables iputils-ping kmod libpam-systemd nftables openssh-server \
      procps python3 python3-apt sudo systemd systemd-sysv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* && touch --date=@0 /var/lib/apt/lists \
 && rm -f /etc/ssh/ssh_host_* /usr/sbin/policy-rc.d \
 && : > /etc/machine-id \
 && systemctl mask systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket \
      systemd-networkd.service systemd-timesyncd.service systemd-modules-load.service \
      getty.target console-getty.service systemd-logind-varlink.socket \
      apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
 && systemctl set-default multi-user.target \
 && useradd --uid 1000 --create-home --shell /bin/bash ops \
 && install -d -m 700 /root/.ssh && install -d -m 700 -o ops -g ops /home/ops/.ssh \
 && echo 'ops ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/ops && chmod 440 /etc/sudoers.d/ops \
 && install -d -m 1777 /srv/ddp-play-shared
COPY entry.sh slow-net.sh /usr/local/sbin/
COPY sshd.conf /etc/ssh/sshd_config.d/lab.conf
COPY slow-net.service /etc/systemd/system/slow-net.service
# systemd takes the id of D-Bus for that of the machine, and all hosts of the image would have the same.
RUN chmod 755 /usr/local/sbin/entry.sh /usr/local/sbin/slow-net.sh && rm -f /var/lib/dbus/machine-id \
 && systemctl enable ssh.service slow-net.service
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/sbin/entry.sh"]
