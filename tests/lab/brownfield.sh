#!/bin/sh
# What a site did to its host before ddp-play came: engine, container, export, kernel settings, limits, firewall, packages.
set -eu
export DEBIAN_FRONTEND=noninteractive

mkdir -p /etc/docker /data/docker
cat > /etc/docker/daemon.json <<'JSON'
{ "data-root": "/data/docker",
  "live-restore": true, "log-driver": "json-file",
  "log-opts": {"max-size": "7m"}, "max-concurrent-downloads": 2 }
JSON
chown root:docker /etc/docker/daemon.json
chmod 0640 /etc/docker/daemon.json
usermod --append --groups docker ops
systemctl restart docker.service
tar -ch /bin/sleep $(ldd /bin/sleep | grep -o '/lib[^ ]*') 2>/dev/null | docker import - guest:1 >/dev/null
docker run --detach --name db guest:1 /bin/sleep 100000 >/dev/null

apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends chrony prometheus-node-exporter ethtool >/dev/null 2>&1
apt-mark --quiet hold docker.io ethtool >/dev/null
apt-mark --quiet auto ethtool >/dev/null
systemctl --quiet disable --now chrony.service
echo 'server time.site.example' > /etc/chrony/chrony.conf
chmod 0600 /etc/chrony/chrony.conf
echo 'ARGS="--no-collector.bonding"' > /etc/default/prometheus-node-exporter
chown ops:ops /etc/default/prometheus-node-exporter
systemctl restart prometheus-node-exporter.service

mkdir -p /srv/site/team /etc/exports.d
echo data > /srv/site/team/model
ln -s team/model /srv/site/newest
mkfifo /srv/site/queue
chown -R ops:games /srv/site
chmod 2770 /srv/site
chmod 0604 /srv/site/team/model
echo '/srv/site 192.0.2.0/24(ro)' > /etc/exports
echo '/srv/site/team 192.0.2.7(rw)' > /etc/exports.d/team.exports
# This kernel has no NFS server: a program of that name prints the exports, and a unit of that name runs.
printf '#!/bin/sh\ncat /etc/exports /etc/exports.d/*.exports\n' > /usr/local/sbin/exportfs
chmod +x /usr/local/sbin/exportfs
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/nfs-server.service
systemctl --quiet daemon-reload
systemctl --quiet enable --now nfs-server.service

printf 'net.core.somaxconn = 1024\nnet.ipv4.ip_local_port_range = 20000\t50000\n' > /etc/sysctl.d/10-site.conf
sysctl --quiet --load /etc/sysctl.d/10-site.conf
echo 'ops hard nofile 4096' > /etc/security/limits.d/site.conf
echo '# theirs' >> /etc/security/limits.conf
echo 'NCCL_SOCKET_NTHREADS=3' > /etc/nccl.conf
chmod 0640 /etc/nccl.conf
nft add table inet site
nft add chain inet site input '{ type filter hook input priority 10; policy accept; }'
nft add rule inet site input tcp dport 8080 drop
# The engine orders its rules of iptables otherwise at its first start than later.
systemctl restart docker.service
