"""A real HTTP proxy and the servers behind it: a mirror, an index of Python packages and a registry."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import select
import socket
import ssl
import subprocess
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOMAIN = "example.invalid"  # resolved by the proxy alone
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
SOCKET_TIMEOUT_S = 30


@dataclass
class Servers:
    """Addresses of the proxy's and of the servers' ports, and what each was asked, in order."""

    proxy: str = ""
    ports: dict[str, int] = field(default_factory=dict)  # by scheme, on the controller's loopback
    asked_proxy: list[str] = field(default_factory=list)
    asked_servers: list[str] = field(default_factory=list)


class Proxy(BaseHTTPRequestHandler):
    """GET of absolute URLs and CONNECT; servers of DOMAIN are this machine's, all others are real."""

    def __init__(self, servers: Servers, *arguments: object) -> None:
        self.servers = servers
        super().__init__(*arguments)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        """What was asked stands in `servers`."""

    def _address(self, host: str, port: int, scheme: str) -> tuple[str, int]:
        return ("127.0.0.1", self.servers.ports[scheme]) if host.endswith(DOMAIN) else (host, port)

    def do_GET(self) -> None:
        """Fetch and pass on; the connection of the client ends with the answer."""
        self.servers.asked_proxy.append(f"GET {self.path}")
        url = urlsplit(self.path)
        address = self._address(url.hostname or "", url.port or 80, "http")
        connection = http.client.HTTPConnection(*address, timeout=SOCKET_TIMEOUT_S)
        headers = {name: text for name, text in self.headers.items() if name.lower() not in ("connection", "host")}
        connection.request("GET", url.path, headers={**headers, "Host": url.netloc, "Connection": "close"})
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, text in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, text)
        self.end_headers()
        while data := answer.read(65536):
            self.wfile.write(data)

    def do_CONNECT(self) -> None:
        """Pass bytes on in both directions until one side ends."""
        self.servers.asked_proxy.append(f"CONNECT {self.path}")
        host, _, port = self.path.rpartition(":")
        with socket.create_connection(self._address(host, int(port), "https"), SOCKET_TIMEOUT_S) as server:
            self.send_response(200)
            self.end_headers()
            pair = {self.connection: server, server: self.connection}
            while True:
                for side in select.select(list(pair), [], [], SOCKET_TIMEOUT_S)[0] or [None]:
                    data = side.recv(65536) if side else b""
                    if not side or not data:
                        return
                    pair[side].sendall(data)


class Files(SimpleHTTPRequestHandler):
    """Static files; names without a suffix below /v2/ get the type that a registry would give them."""

    def __init__(self, servers: Servers, *arguments: object, directory: str) -> None:
        self.servers = servers
        super().__init__(*arguments, directory=directory)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        """What was asked stands in `servers`."""

    def guess_type(self, path: object) -> str:
        """The type of a manifest for a manifest."""
        return MANIFEST if "/manifests/" in str(path) else super().guess_type(str(path))

    def parse_request(self) -> bool:
        """Note what was asked."""
        parsed = super().parse_request()
        self.servers.asked_servers.append(f"{self.command} {self.headers.get('Host', '')}{self.path}" if parsed else "")
        return parsed


@contextmanager
def serving(address: str, folder: Path, certificate: Path) -> Iterator[Servers]:
    """The proxy on an address that hosts reach, and servers of the folder on the loopback, with and without TLS."""
    servers = Servers()
    files = partial(Files, servers, directory=str(folder))
    plain, encrypted = (ThreadingHTTPServer(("127.0.0.1", 0), files) for _ in range(2))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    encrypted.socket = context.wrap_socket(encrypted.socket, server_side=True, do_handshake_on_connect=False)
    proxy = ThreadingHTTPServer((address, 0), partial(Proxy, servers))
    servers.ports = {"http": plain.server_port, "https": encrypted.server_port}
    servers.proxy = f"http://{address}:{proxy.server_port}"
    running = (plain, encrypted, proxy)
    for server in running:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield servers
    finally:
        for server in running:
            server.shutdown()
            server.server_close()


def write_certificate(path: Path, *names: str) -> None:
    """Key and certificate in one file; the certificate is its own authority."""
    subject = ["-subj", f"/CN={DOMAIN}", "-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names)]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    out = ["-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run(["openssl", "req", "-x509", *key, *subject, *out], check=True, capture_output=True)
    path.write_text(path.read_text() + path.with_name(f"{path.name}.crt").read_text())


def write_index(folder: Path, name: str) -> None:
    """FOLDER/simple with version 1.0 of one Python package, an empty module."""
    page = folder / "simple" / name
    page.mkdir(parents=True)
    wheel, info = f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(page / wheel, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (page / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')


def write_registry(folder: Path, name: str) -> None:
    """FOLDER/v2 with NAME:1, an image of one empty file."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    content = layer.getvalue()
    root = {"type": "layers", "diff_ids": [_digest(content)]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": root}).encode()
    packed = gzip.compress(content)
    parts = [
        {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}
        for kind, blob in ((CONFIG, config), (LAYER, packed))
    ]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": parts[0], "layers": [parts[1]]}
    blobs, manifests = folder / "v2" / name / "blobs", folder / "v2" / name / "manifests"
    blobs.mkdir(parents=True)
    manifests.mkdir()
    (folder / "v2" / "index.html").write_text("{}")
    for blob in (config, packed):
        (blobs / _digest(blob)).write_bytes(blob)
    text = json.dumps(manifest).encode()
    for tag in ("1", _digest(text)):
        (manifests / tag).write_bytes(text)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
