"""Disguise a container host as Enterprise Linux: os-release, uname, real dnf and rpm, and the vendors' addresses.

The stub repositories are served with TLS at the vendors' own addresses on the host itself, so that the roles run with
their default source. Nothing else answers there. This shows the roles with dnf, not with Enterprise Linux.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from tests.roles_gpu import rpms, vendor_data

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
VENDORS = "/srv/vendors"
SERVER = f"""import http.server, ssl
class Handler(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path):
        return super().translate_path("/" + self.headers["Host"].split(":")[0] + path)
    def log_message(self, *arguments):
        print(self.headers["Host"], *arguments, flush=True)
import os
os.chdir("{VENDORS}")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/root/vendors.crt", "/root/vendors.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
UNAME = '#!/bin/sh\n[ "$1" = -r ] && {{ echo {kernel}; exit; }}\nexec /opt/hidden/uname "$@"\n'
REPO = "[{name}]\nname={name}\nbaseurl=file://{folder}\nenabled={enabled}\ngpgcheck=1\ngpgkey=file:///root/stub.asc\n"


class Machine(Protocol):
    """What a host must offer; tests.roles_gpu.hosts.Host does."""

    def sh(self, script: str, *, check: bool = True) -> str: ...

    def put(self, source: Path, target: str) -> None: ...


def place(url: str) -> str:
    """Folder or file of an address below the server's root."""
    parts = urlsplit(url)
    return f"{VENDORS}/{parts.netloc}{parts.path}"


def repositories(platform: str) -> Iterator[tuple[str, dict[str, Any]]]:
    data = vendor_data.load()
    for name in data["platforms"][platform]["repositories"]:
        yield name, data["repositories"][name]


def build(host: Machine, platform: str) -> None:
    """Build every repository of the platform on the host, signed with one throwaway key."""
    with tempfile.TemporaryDirectory() as folder:
        for name, repository in repositories(platform):
            rpms.write_specs(Path(folder, name), tuple(repository["sets"]))
        host.put(Path(folder), "/root/specs")
    host.put(HERE / "build_rpms.sh", "/root/build_rpms.sh")
    lines = [f"sh /root/build_rpms.sh /root/specs/{name} {place(row['url'])}" for name, row in repositories(platform)]
    export = "gpg --armor --export right@example.invalid"
    lines.append(f"{export} > /root/stub.asc; rpm --import /root/stub.asc")
    for row in vendor_data.load()["keys"]:
        lines.append(f"mkdir -p {place(row['url']).rpartition('/')[0]}; cp /root/stub.asc {place(row['url'])}")
    host.sh("set -e; " + "; ".join(lines))


def serve(host: Machine, platform: str) -> None:
    """Give the vendors' names to this host, with a certificate that it trusts."""
    addresses = [row["url"] for _, row in repositories(platform)] + [row["url"] for row in vendor_data.load()["keys"]]
    names = sorted({urlsplit(url).netloc for url in addresses})
    alternatives = ",".join(f"DNS:{name}" for name in names)
    host.sh(
        "set -e; openssl req -x509 -newkey rsa:2048 -nodes -keyout /root/vendors.key -out /root/vendors.crt -days 2"
        f" -subj /CN=vendors -addext subjectAltName={alternatives} 2>/dev/null;"
        " cp /root/vendors.crt /usr/local/share/ca-certificates/; update-ca-certificates >/dev/null 2>&1;"
        f" echo 127.0.0.1 {' '.join(names)} >> /etc/hosts"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "server.py")
        script.write_text(SERVER, encoding="utf-8")
        host.put(script, "/root/server.py")


def become(host: Machine, platform: str) -> None:
    """Replace os-release and uname, install what such a host has, and hide dpkg and apt."""
    row = vendor_data.load()["platforms"][platform]
    lines = [
        f"cat > /etc/yum.repos.d/{name}.repo <<'R'\n{repo_text(name, repository)}R"
        for name, repository in base(platform)
    ]
    release = "\n".join(f'{key}="{value}"' for key, value in row["os_release"].items())
    pretty = row["os_release"]["PRETTY_NAME"].replace("Linux ", "Linux release ")
    lines += [
        "mkdir -p /opt/hidden",
        f"dnf -q -y install {' '.join(row['installed'])}",
        f"rm -f /etc/os-release; cat > /etc/os-release <<'R'\n{release}\nR",
        f"echo '{pretty}' > /etc/redhat-release; rm -f /etc/debian_version",
        f"mv /usr/bin/uname /opt/hidden/uname; cat > /usr/bin/uname <<'R'\n{UNAME.format(kernel=row['kernel'])}R",
        "chmod +x /usr/bin/uname; mv /usr/bin/dpkg* /usr/bin/apt* /opt/hidden/",
    ]
    host.sh("set -e\n" + "\n".join(["mkdir -p /etc/yum.repos.d", *lines]))


def base(platform: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The repositories that a new host of this platform has."""
    return ((name, row) for name, row in repositories(platform) if not row.get("absent"))


def repo_text(name: str, row: dict[str, Any]) -> str:
    return REPO.format(name=name, folder=place(row["url"]), enabled=int(row.get("enabled", True)))


def disguise(host: Machine, platform: str) -> None:
    """All of it; the server is started by start_vendors."""
    build(host, platform)
    serve(host, platform)
    become(host, platform)


def start_vendors(host: Machine) -> None:
    answers = "openssl s_client -connect 127.0.0.1:443 </dev/null >/dev/null 2>&1"
    host.sh("systemd-run -q --unit=vendors python3 -u /root/server.py")
    host.sh(f"timeout 60 sh -c 'until {answers}; do sleep 0.1; done'")


def stop_vendors(host: Machine) -> None:
    """From now on no vendor can be reached."""
    host.sh("systemctl stop vendors")
