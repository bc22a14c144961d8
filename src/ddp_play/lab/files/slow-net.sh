#!/bin/sh
# Shapes the interface that carries the address in /etc/ddp-play-lab/slow-net ("ADDRESS RATE").
set -eu
read -r address rate < /etc/ddp-play-lab/slow-net
device=$(ip -o -4 addr show | awk -v a="$address" 'index($4, a "/") == 1 { print $2 }')
exec tc qdisc replace dev "$device" root tbf rate "$rate" burst 64kb latency 400ms
