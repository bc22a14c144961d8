"""Test of ports and path MTU between hosts for `ddp-play check`: a listener on each, and connections from its peers.

A listener answers with the word of its host, so that an address that two machines have is noticed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import socket
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .network_probe import family_of

IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2  # include/uapi/linux/in.h
IPV6_MTU_DISCOVER, IPV6_DONTFRAG = 23, 62  # include/uapi/linux/in6.h
IP_BIND_ADDRESS_NO_PORT = 24
HEADERS = {socket.AF_INET: 28, socket.AF_INET6: 48}  # of IP and UDP
WORD_BYTES = 32
TRIES_EVERY_S = 0.2
MAX_DATAGRAM = 65536
LIFE_S = 60.0
SPARE_FILES = 16  # that the program opens besides the connections


@contextlib.contextmanager
def _more_files() -> Iterator[int]:
    """Raise the soft limit of open files to the hard one within this context, which gets how many may be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = 1 << 20 if most == resource.RLIM_INFINITY else most
    try:
        yield max(1, most - len(os.listdir("/proc/self/fd")) - SPARE_FILES)
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Listener:
    """Sockets that answer in a process of their own, which ends with this one, or after a minute."""

    def __init__(self, address: str, ports: List[int], word: str) -> None:
        """`ports`: of the job; two that the kernel chooses are added, because ranks use such ports too."""
        self.taken: Dict[int, str] = {}
        self.ports: List[int] = []
        self.chosen: List[int] = []
        sockets: List[socket.socket] = []
        for port in (*ports, 0, 0):
            try:
                sock = _listening(address, port)
            except OSError as error:
                self.taken[port] = error.strerror or str(error)
                continue
            sockets.append(sock)
            (self.ports if port else self.chosen).append(int(sock.getsockname()[1]))
        datagrams = socket.socket(family_of(address), socket.SOCK_DGRAM)
        datagrams.bind((address, 0))
        self.datagram_port = int(datagrams.getsockname()[1])
        self._alive, far = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(far)
            _serve(sockets, datagrams, word.encode(), self._alive)
        os.close(self._alive)
        self._alive = far
        for sock in (*sockets, datagrams):
            sock.close()

    def close(self) -> None:
        """Free the ports, also if another process has inherited the pipe."""
        os.close(self._alive)
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _listening(address: str, port: int) -> socket.socket:
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(256)
    except OSError:
        sock.close()
        raise
    return sock


def _serve(sockets: List[socket.socket], datagrams: socket.socket, word: bytes, alive: int) -> None:
    """Answer until the parent closes its end of the pipe.

    The peers close connections first: the end that does keeps its port in TIME_WAIT, and ranks may need these ports.
    """
    try:
        with _more_files():
            _answer(sockets, datagrams, word, alive)
    finally:
        os._exit(0)


def _answer(sockets: List[socket.socket], datagrams: socket.socket, word: bytes, alive: int) -> None:
    by_fd = {sock.fileno(): sock for sock in (datagrams, *sockets)}
    listening, poll = set(by_fd), select.poll()
    for fd in (alive, *by_fd):
        poll.register(fd, select.POLLIN)
    until = time.monotonic() + LIFE_S
    while time.monotonic() < until:
        for fd, _ in poll.poll(1000):
            if fd == alive:
                return
            with contextlib.suppress(OSError):
                if fd not in listening:
                    poll.unregister(fd)
                    by_fd.pop(fd).close()
                elif by_fd[fd] is datagrams:
                    _return_datagram(datagrams, word)
                else:
                    peer = _greet(by_fd[fd], word)
                    by_fd[peer.fileno()] = peer
                    poll.register(peer.fileno(), select.POLLIN)


def _return_datagram(datagrams: socket.socket, word: bytes) -> None:
    data, peer = datagrams.recvfrom(MAX_DATAGRAM)
    datagrams.sendto(word + b" %d" % len(data), peer)


def _greet(listener: socket.socket, word: bytes) -> socket.socket:
    peer, _ = listener.accept()
    peer.settimeout(1.0)
    peer.sendall(word)
    return peer


def connect_all(peers: List[Dict[str, Any]], source: str, timeout_s: float) -> List[Dict[str, Any]]:
    """A row per connection that failed: peer, port, and `result`. As many are tried at once as files may be open.

    Results: timeout, refused, "another machine" (without the word of the peer), or the text of the error.
    """
    ends = [(peer, int(port)) for peer in peers for port in peer["ports"]]
    failed: List[Dict[str, Any]] = []
    with _more_files() as most:
        for at in range(0, len(ends), most):
            failed += _connect(ends[at : at + most], source, timeout_s)
    return sorted(failed, key=lambda row: (row["peer"], row["port"]))


def _connect(ends: List[Tuple[Dict[str, Any], int]], source: str, timeout_s: float) -> List[Dict[str, Any]]:
    failed: List[Dict[str, Any]] = []
    waiting: Dict[int, _Attempt] = {}
    for peer, port in ends:
        attempt = _Attempt(peer, port)
        code = attempt.begin(source)
        if code in (0, errno.EINPROGRESS):
            waiting[attempt.sock.fileno()] = attempt
        else:
            failed.append(attempt.failed(_name(code)))
    until, poll = time.monotonic() + timeout_s, select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN | select.POLLERR | select.POLLHUP)
    while waiting and time.monotonic() < until:
        for fd, _ in poll.poll(max(1, int((until - time.monotonic()) * 1000))):
            poll.unregister(fd)
            attempt = waiting.pop(fd)
            row = attempt.failed(_result(attempt.sock, attempt.peer["word"]))
            failed += [row] if row["result"] else []
    return failed + [attempt.failed("timeout") for attempt in waiting.values()]


class _Attempt:
    """One connection to a port of a peer."""

    def __init__(self, peer: Dict[str, Any], port: int) -> None:
        self.peer, self.port = peer, port
        self.sock = socket.socket(family_of(peer["address"]), socket.SOCK_STREAM)
        self.sock.setblocking(False)
        with contextlib.suppress(OSError):  # else each connection would take an ephemeral port of its own
            self.sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)

    def begin(self, source: str) -> int:
        """Start to connect from this address; the error number of connect(2)."""
        try:
            self.sock.bind((source, 0))
            return self.sock.connect_ex((self.peer["address"], self.port))
        except OSError as error:
            return error.errno or errno.EIO

    def failed(self, result: str) -> Dict[str, Any]:
        """Close the connection; answer what failed (an empty `result`: nothing)."""
        self.sock.close()
        return {"peer": self.peer["name"], "port": self.port, "result": result}


def _result(sock: socket.socket, word: str) -> str:
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        return _name(code)
    try:
        said = sock.recv(WORD_BYTES)
    except OSError as error:
        return _name(error.errno or errno.EIO)
    return "" if said.decode("ascii", "replace") == word else "another machine"


def _name(code: int) -> str:
    return {errno.ECONNREFUSED: "refused", errno.ETIMEDOUT: "timeout"}.get(code) or os.strerror(code)


def path_mtus(peers: List[Dict[str, Any]], source: str, timeout_s: float) -> Dict[str, Dict[str, Any]]:
    """By peer: whether a small datagram and one of `mtu` bytes arrive unfragmented, and the kernel's own path MTU."""
    found: Dict[str, Dict[str, Any]] = {}
    with _more_files() as most:
        for at in range(0, len(peers), most):
            found.update(_mtus(peers[at : at + most], source, timeout_s))
    return found


def _mtus(peers: List[Dict[str, Any]], source: str, timeout_s: float) -> Dict[str, Dict[str, Any]]:
    found: Dict[str, Dict[str, Any]] = {}
    ends: Dict[int, Tuple[socket.socket, Dict[str, Any], Dict[str, Any]]] = {}
    poll = select.poll()  # select(2) takes no descriptor above 1023
    for peer in peers:
        row = found[peer["name"]] = {"mtu": peer["mtu"], "small": False, "large": False, "kernel": None}
        sock = _datagram_socket(source, peer)
        ends[sock.fileno()] = (sock, peer, row)
        poll.register(sock.fileno(), select.POLLIN)
    until, send_at = time.monotonic() + timeout_s, 0.0
    while time.monotonic() < until and not all(row["small"] and row["large"] for row in found.values()):
        if time.monotonic() >= send_at:
            send_at = time.monotonic() + TRIES_EVERY_S
            for end in ends.values():
                _send(*end)
        for fd, _ in poll.poll(20):
            _take(*ends[fd])
    for sock, _, row in ends.values():
        row["kernel"] = _kernel_mtu(sock)
        sock.close()
    return found


def _datagram_socket(source: str, peer: Dict[str, Any]) -> socket.socket:
    sock = socket.socket(family_of(source), socket.SOCK_DGRAM)
    sock.setblocking(False)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_DO)
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_DONTFRAG, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    with contextlib.suppress(OSError):
        sock.bind((source, 0))
        sock.connect((peer["address"], peer["datagram_port"]))
    return sock


def _send(sock: socket.socket, peer: Dict[str, Any], row: Dict[str, Any]) -> None:
    size = peer["mtu"] - HEADERS[socket.AddressFamily(sock.family)]
    for name, length in (("small", 16), ("large", size)):
        if not row[name]:
            with contextlib.suppress(OSError):  # EMSGSIZE: the kernel has learned of a smaller MTU
                sock.send(bytes(length))


def _take(sock: socket.socket, peer: Dict[str, Any], row: Dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        while True:
            word, _, size = sock.recv(MAX_DATAGRAM).decode("ascii", "replace").partition(" ")
            if word == peer["word"] and size.isdigit():
                row["small" if int(size) == 16 else "large"] = True


def _kernel_mtu(sock: socket.socket) -> Optional[int]:
    with contextlib.suppress(OSError):
        if sock.family == socket.AF_INET6:
            return int(sock.getsockopt(socket.IPPROTO_IPV6, 24))  # IPV6_MTU
        return int(sock.getsockopt(socket.IPPROTO_IP, 14))  # IP_MTU
    return None
