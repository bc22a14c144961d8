"""A local apt repository with NVIDIA's package names and versions, and nothing of NVIDIA's in it.

    python tests/roles_gpu/stub_repo.py TARGET --kernel "$(uname -r)"

Dependencies are as loose as the vendor's (>=, not =), so that only a pin keeps a branch together. What the
packages install is enough to be judged: a module modinfo reads, dkms status, nvidia-smi, libcuda, units.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.roles_gpu.debs import File, Package, kernel_module, write_repository

DRIVERS = ("580.105.08", "580.178.04", "595.91.07")
TOOLKITS = ("1.17.8", "1.18.1", "1.19.1", "1.20.0")
KEY_NAMES = ("3bf863cc.pub", "8793F200.pub", "gpgkey")

SMI = """#!/bin/sh
# stub: as many GPUs as /etc/ddp-stub/gpus says, 2 without it
n=$(cat /etc/ddp-stub/gpus 2>/dev/null || echo 2)
echo '<?xml version="1.0" ?><nvidia_smi_log><driver_version>@VERSION@</driver_version>'
echo "<cuda_version>13.0</cuda_version><attached_gpus>$n</attached_gpus>"
i=0; while [ $i -lt "$n" ]; do
  echo "<gpu id='00000000:0$i:00.0'><product_name>stub</product_name>"
  echo "<persistence_mode>Enabled</persistence_mode><mig_mode><current_mig>Disabled</current_mig></mig_mode>"
  echo "<fabric><state>Completed</state><status>Success</status></fabric></gpu>"
  i=$((i+1))
done
echo '</nvidia_smi_log>'
"""
DKMS = """#!/bin/sh
# stub: knows only "status", from what the stub modules left behind
[ "$1" = status ] || exit 0
for f in /var/lib/dkms/nvidia/*/*/*/module; do
  [ -e "$f" ] || continue
  echo "$f" | awk -F/ '{printf "nvidia/%s, %s, %s: installed\\n", $6, $7, $8}'
done
"""
# Like the real one: without headers nothing is built, and the package still installs.
MODULE_POSTINST = """#!/bin/sh
set -e
k=$(uname -r); m=$(uname -m); v=@VERSION@
[ -e /lib/modules/$k/build/Makefile ] || { echo "stub: no headers for $k, module not built" >&2; exit 0; }
mkdir -p /lib/modules/$k/updates/dkms /var/lib/dkms/nvidia/$v/$k/$m/module
cp /usr/src/nvidia-$v/nvidia.ko /lib/modules/$k/updates/dkms/nvidia.ko
depmod $k 2>/dev/null || true
"""
MODULE_PRERM = """#!/bin/sh
k=$(uname -r)
rm -rf /var/lib/dkms/nvidia/@VERSION@ /lib/modules/$k/updates/dkms/nvidia.ko
depmod $k 2>/dev/null || true
"""
DAEMON = "#!/bin/sh\nexec sleep infinity\n"
RELOAD = "#!/bin/sh\n[ -d /run/systemd/system ] && systemctl daemon-reload || true\n"
CUDA_C = """
#include <stdio.h>
static int code(void) {
  int c = 0; FILE *f = fopen("/etc/ddp-stub/cuinit", "r");
  if (f) { fscanf(f, "%d", &c); fclose(f); }
  return c;
}
int cuInit(unsigned f) { return code(); }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { return 0; }
"""


INSTALL = "[Install]\nWantedBy=multi-user.target\n"


def unit(name: str, command: str) -> dict[str, File]:
    text = f"[Unit]\nDescription=stub {name}\n[Service]\nExecStart={command}\n{INSTALL}"
    return {f"/lib/systemd/system/{name}.service": File(text.encode()), command: File(DAEMON.encode(), 0o755)}


def pinning(version: str, what: str) -> Package:
    """Every driver package at this branch or version, even as a downgrade."""
    names = "nvidia-* libnvidia-* libcuda1 cuda-drivers* libnvsdm*"
    text = f"Package: {names}\nPin: version {what}*\nPin-Priority: 1001\n"
    return Package(
        f"nvidia-driver-pinning-{what.rstrip('.')}",
        f"{version}-1",
        arch="all",
        fields={
            "Provides": "nvidia-driver-pinning",
            "Conflicts": "nvidia-driver-pinning",
            "Replaces": "nvidia-driver-pinning",
        },
        files={"/etc/apt/preferences.d/nvidia-driver-pinning": File(text.encode())},
    )


def module(name: str, version: str, licence: str, rival: str) -> Package:
    ko = kernel_module({"version": version, "license": licence, "name": "nvidia"})
    return Package(
        name,
        f"{version}-1",
        fields={"Depends": "dkms (>= 3.1.8)", "Provides": "nvidia-kernel", "Conflicts": rival},
        files={f"/usr/src/nvidia-{version}/nvidia.ko": File(ko)},
        scripts={
            "postinst": MODULE_POSTINST.replace("@VERSION@", version),
            "prerm": MODULE_PRERM.replace("@VERSION@", version),
        },
    )


def smi(version: str) -> dict[str, File]:
    return {"/usr/bin/nvidia-smi": File(SMI.replace("@VERSION@", version).encode(), 0o755)}


def driver(version: str, libcuda: bytes) -> list[Package]:
    full, at_least = f"{version}-1", f"(>= {version})"
    persistenced = unit("nvidia-persistenced", "/usr/bin/nvidia-persistenced")
    fabric = unit("nvidia-fabricmanager", "/usr/bin/nv-fabricmanager")
    library = {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": File(libcuda)} if libcuda else {}
    libraries = ("libcuda1", "libnvidia-ml1", "nvidia-modprobe")
    either = f"nvidia-kernel-open-dkms {at_least} | nvidia-kernel-dkms {at_least}"
    return [
        Package("libcuda1", full, files=library),
        Package("libnvidia-ml1", full),
        Package("nvidia-modprobe", full),
        Package(
            "nvidia-driver-cuda",
            full,
            fields={"Depends": ", ".join([*(f"{name} {at_least}" for name in libraries), either])},
            files=smi(version),
        ),
        module("nvidia-kernel-open-dkms", version, "Dual MIT/GPL", "nvidia-kernel-dkms"),
        module("nvidia-kernel-dkms", version, "NVIDIA", "nvidia-kernel-open-dkms"),
        Package(
            "nvidia-open",
            full,
            fields={"Depends": f"nvidia-driver-cuda {at_least}, nvidia-kernel-open-dkms {at_least}"},
        ),
        Package(
            "cuda-drivers",
            full,
            fields={"Depends": f"nvidia-driver-cuda {at_least}, nvidia-kernel-dkms {at_least}"},
        ),
        Package("nvidia-persistenced", full, files=persistenced, scripts={"postinst": RELOAD}),
        Package("nvidia-fabricmanager", full, files=fabric, scripts={"postinst": RELOAD}),
        Package("libnvidia-nscq", full),
    ]


def ubuntu_driver(version: str, libcuda: bytes) -> list[Package]:
    """Ubuntu's names: with the branch up to 580, without from 590 on."""
    branch = version.split(".", maxsplit=1)[0]
    suffix = f"-{branch}" if int(branch) < 590 else ""
    full = f"{version}-0ubuntu1"
    compute = f"libnvidia-compute{suffix}"
    library = {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": File(libcuda)} if libcuda else {}
    rivals = {"Provides": "libnvidia-compute-any", "Conflicts": "libnvidia-compute-any"}
    open_module = module(f"nvidia-dkms{suffix}-open", version, "Dual MIT/GPL", "nvidia-kernel")
    return [
        Package(compute, full, fields=rivals, files=library),
        Package(f"nvidia-utils{suffix}", full, fields={"Depends": f"{compute} (>= {version})"}, files=smi(version)),
        Package(
            open_module.name,
            full,
            fields=open_module.fields,
            files=open_module.files,
            scripts=open_module.scripts,
        ),
    ]


def toolkit(version: str) -> list[Package]:
    """Its four packages depend on each other at exactly one version."""
    full, exact = f"{version}-1", f"(= {version}-1)"
    ctk = f'#!/bin/sh\n[ "$1" = --version ] && echo "NVIDIA Container Toolkit CLI version {version}"\n'
    ctk += '[ "$1 $2" = "cdi list" ] && cat /etc/ddp-stub/cdi 2>/dev/null\nexit 0\n'
    command = "/bin/sh -c 'mkdir -p /run/cdi; echo stub > /run/cdi/nvidia.yaml'"
    refresh = f"[Unit]\nDescription=stub refresh\n[Service]\nType=oneshot\nExecStart={command}\n"
    path = f"[Unit]\nDescription=stub watch\n[Path]\nPathExists=/nonexistent\n{INSTALL}"
    base_files = {
        "/usr/bin/nvidia-ctk": File(ctk.encode(), 0o755),
        "/usr/bin/nvidia-container-runtime": File(DAEMON.encode(), 0o755),
        "/lib/systemd/system/nvidia-cdi-refresh.service": File(refresh.encode()),
        "/lib/systemd/system/nvidia-cdi-refresh.path": File(path.encode()),
    }
    return [
        Package("libnvidia-container1", full),
        Package("libnvidia-container-tools", full, fields={"Depends": f"libnvidia-container1 {exact}"}),
        Package("nvidia-container-toolkit-base", full, files=base_files, scripts={"postinst": RELOAD}),
        Package(
            "nvidia-container-toolkit",
            full,
            fields={"Depends": f"nvidia-container-toolkit-base {exact}, libnvidia-container-tools {exact}"},
        ),
    ]


# Like the real one, it listens where its arguments say.
EXPORTER = """#!/usr/bin/python3
import http.server, re, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"# TYPE node_load1 gauge\\nnode_load1 0.0\\n")
found = re.search(r"listen-address=(.*):(\\d+)", " ".join(sys.argv))
host, port = found.groups() if found else ("", "9100")
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
"""


def exporter() -> dict[str, File]:
    """node_exporter with its unit and its file of arguments."""
    files = unit("prometheus-node-exporter", "/usr/bin/prometheus-node-exporter")
    service = files["/lib/systemd/system/prometheus-node-exporter.service"].content.decode()
    arguments = "EnvironmentFile=/etc/default/prometheus-node-exporter\n[Install]"
    service = service.replace("[Install]", arguments, 1).replace("node-exporter\nEnv", "node-exporter $ARGS\nEnv")
    return {
        "/lib/systemd/system/prometheus-node-exporter.service": File(service.encode()),
        "/usr/bin/prometheus-node-exporter": File(EXPORTER.encode(), 0o755),
        "/etc/default/prometheus-node-exporter": File(b'ARGS=""\n'),
    }


NVCC = '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n'
NVCC_13_3 = NVCC.replace("13.0, V13.0.88", "13.3, V13.3.33")


def companions(kernel: str) -> list[Package]:
    return [
        Package("dkms", "1:3.2.8-1", arch="all", files={"/usr/sbin/dkms": File(DKMS.encode(), 0o755)}),
        Package(
            f"linux-headers-{kernel}",
            "1.0-1",
            files={f"/lib/modules/{kernel}/build/Makefile": File(b"# stub\n")},
        ),
        Package(
            "cuda-toolkit-13-0",
            "13.0.2-1",
            files={"/usr/local/cuda-13.0/bin/nvcc": File(NVCC.encode(), 0o755)},
        ),
        Package("nvidia-docker2", "2.13.0-1", arch="all"),
        Package("libnccl2", "2.28.9-1+cuda13.0"),
        Package("libnccl-dev", "2.28.9-1+cuda13.0", fields={"Depends": "libnccl2 (= 2.28.9-1+cuda13.0)"}),
        Package("doca-ofed", "3.2.3-1", fields={"Depends": "rdma-core"}),
    ]


def compile_libcuda() -> bytes:
    """Empty without a C compiler: verify then has to run with nvidia_driver_verify_cuda false."""
    if not shutil.which("cc"):
        return b""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "cuda.c"), Path(folder, "libcuda.so.1")
        source.write_text(CUDA_C, encoding="utf-8")
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        return library.read_bytes()


def all_packages(kernel: str) -> list[Package]:
    libcuda = compile_libcuda()
    packages = companions(kernel)
    for version in DRIVERS:
        packages += driver(version, libcuda) + ubuntu_driver(version, libcuda) + [pinning(version, version)]
    packages += [pinning(max(v for v in DRIVERS if v.startswith(b)), f"{b}.") for b in ("580", "595")]
    for version in TOOLKITS:
        packages += toolkit(version)
    return packages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--kernel", required=True, help="the hosts' uname -r, for the headers package")
    arguments = parser.parse_args()
    start = time.monotonic()
    packages = all_packages(arguments.kernel)
    write_repository(arguments.target, packages, key_names=KEY_NAMES)
    sys.stdout.write(f"{len(packages)} packages in {arguments.target}, {time.monotonic() - start:.1f} s\n")


if __name__ == "__main__":
    main()
