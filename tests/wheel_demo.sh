#!/bin/sh
# Build the wheel, install it into a clean environment elsewhere, run the demo and a user's own script from there.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$root/.venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir "$place/dist" "$root"
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$root/constraints.txt" torch
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$root/constraints.txt" \
  "$(ls "$place"/dist/*.whl)[trainer]"
export DDP_PLAY_HOME="$place/home" DDP_PLAY_HOST_DIR="$place/host" HOME="$place"
mkdir "$place/work" && cd "$place/work"
"$place/venv/bin/ddp-play" run
"$place/venv/bin/ddp-play" results --json >results.json
"$place/venv/bin/python" - <<'P'
import json
accuracy = json.load(open("results.json"))["results"]["0"]["accuracy"]
assert accuracy >= 0.97, accuracy
print(f"accuracy {accuracy} from the wheel")
P
cat >own.py <<'P'
import os

print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
P
cat >job.yml <<'Y'
- hosts: ranks
  gather_facts: false
  roles:
    - role: ddp.play.ddp_job
      vars:
        ddp_job_source: .
        ddp_job_command: python own.py
Y
inventory=$(dirname "$("$place/venv/bin/python" -c 'import ansible_collections.ddp.play as c; print(list(c.__path__)[0])')")/play/inventory/local
"$place/venv/bin/ddp-play" run job.yml -i "$inventory" --ranks all
cat >classic.py <<'P'
import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
for name, kind in (("--rank", int), ("--world-size", int), ("--init-method", str), ("--backend", str)):
    parser.add_argument(name, type=kind)
args = parser.parse_args()
dist.init_process_group(args.backend, init_method=args.init_method, rank=args.rank, world_size=args.world_size)
value = torch.ones(1)
dist.all_reduce(value)
assert int(value) == args.world_size
dist.destroy_process_group()
P
cat >classic.yml <<'Y'
- hosts: ranks
  gather_facts: false
  roles:
    - role: ddp.play.ddp_job
      vars:
        ddp_job_source: .
        ddp_job_init_method: tcp
        ddp_job_command: >-
          python classic.py --rank {rank} --world-size {world_size} --init-method {init_method} --backend {backend}
Y
"$place/venv/bin/ddp-play" run classic.yml -i "$inventory"
"$place/venv/bin/ansible-playbook" -i "$inventory" ddp.play.train
# Each run's report is written after its end, by a process of its own.
for bundle in "$DDP_PLAY_HOME"/runs/*; do
  tries=0
  until [ -s "$bundle/report.html" ]; do
    tries=$((tries + 1))
    [ "$tries" -le 600 ] || { echo "no report in $bundle"; exit 1; }
    sleep 1
  done
done
