"""Process manager for MPI ranks: a PMI-1 server (MPICH's wire protocol) for one gang of known size.

MPICH's client (and Intel MPI's, which is derived from it) connects to $PMI_PORT, names itself with $PMI_ID, and then
exchanges lines of `key=value` words; ranks publish their addresses as values of keys. With this server `mpiexec`,
its proxies and SSH between hosts are not needed: ranks start as for the other backends.
Source of the protocol: src/pmi/src/pmi_v1.c and pmi_wire.c of pmodels/mpich (4.x and 5.x).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Any, Dict, List, Optional

LINE_MAX = 64 * 1024
MAXES = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0"


def parse(line: str) -> Dict[str, str]:
    """Words of a line like `cmd=put key=a value=b c`; `value` extends to the end of the line, with blanks."""
    found: Dict[str, str] = {}
    rest = line.strip()
    while rest:
        name, _, tail = rest.partition("=")
        if name == "value":
            found[name] = tail
            break
        value, _, rest = tail.partition(" ")
        found[name.strip()] = value
        rest = rest.lstrip()
    return found


class Board:
    """Keys that a gang of `size` ranks published, and clients that wait at the barrier. Does no input or output."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self.name = name
        self.values: Dict[str, str] = {}
        self.waiting: List[int] = []
        self.aborted: Optional[int] = None  # the exit code of MPI_Abort

    def answer(self, client: int, words: Dict[str, str]) -> Dict[int, str]:
        """Lines to send by client; `client` is any number that the caller assigned to a connection."""
        command = words.get("cmd", "")
        if command == "put":
            self.values[words.get("key", "")] = words.get("value", "")
            return {client: "cmd=put_result rc=0 msg=success"}
        if command == "get":
            return {client: self._get(words.get("key", ""))}
        if command == "barrier_in":
            return self._barrier(client)
        if command == "abort":
            self.aborted = int(words.get("exitcode", "1") or 1)
            return {}
        return {client: self._simple(command, words)}

    def _simple(self, command: str, words: Dict[str, str]) -> str:
        answers = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": MAXES,
            "get_appnum": "cmd=appnum appnum=0 rc=0",
            "get_my_kvsname": "cmd=my_kvsname kvsname=%s rc=0" % self.name,
            "get_universe_size": "cmd=universe_size size=%d rc=0" % self.size,
            "finalize": "cmd=finalize_ack rc=0",
        }
        if command == "initack":
            return "cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%s\ncmd=set debug=0" % (self.size, words["pmiid"])
        return answers.get(command, "cmd=%s_result rc=-1 msg=not_supported" % (command or "unknown"))

    def _get(self, key: str) -> str:
        if key in self.values:
            return "cmd=get_result rc=0 msg=success value=%s" % self.values[key]
        return "cmd=get_result rc=-1 msg=key_%s_not_found value=unknown" % key

    def _barrier(self, client: int) -> Dict[int, str]:
        self.waiting.append(client)
        if len(self.waiting) < self.size:
            return {}
        released, self.waiting = self.waiting, []
        return dict.fromkeys(released, "cmd=barrier_out rc=0")


class Server:
    """Listening socket for a Board, served by a thread until `close`. Raises OSError if the port is in use."""

    def __init__(self, address: str, port: int, board: Board) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.board = board
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._sock.bind((address, port))
            self._sock.listen(256)
        except OSError:
            self._sock.close()
            raise
        self.port = int(self._sock.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._sock, selectors.EVENT_READ)
        self._buffers: Dict[int, bytes] = {}
        self._clients: Dict[int, socket.socket] = {}
        self._open = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._open:
            for key, _ in self._selector.select(0.2):
                sock = key.fileobj
                if sock is self._sock:
                    self._accept()
                else:
                    self._read(sock)  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            peer, _ = self._sock.accept()
            peer.settimeout(10)  # answers are short lines, which only a dead peer does not accept
            self._buffers[peer.fileno()] = b""
            self._clients[peer.fileno()] = peer
            self._selector.register(peer, selectors.EVENT_READ)

    def _read(self, peer: socket.socket) -> None:
        number = peer.fileno()
        try:
            data = peer.recv(65536)
        except OSError:
            data = b""
        buffered = self._buffers[number] + data
        if not data or len(buffered) > LINE_MAX:
            self._forget(peer)
            return
        *lines, self._buffers[number] = buffered.split(b"\n")
        for line in lines:
            for client, text in self.board.answer(number, parse(line.decode("utf-8", "replace"))).items():
                with contextlib.suppress(OSError, KeyError):
                    self._clients[client].sendall(text.encode() + b"\n")

    def _forget(self, peer: socket.socket) -> None:
        self._selector.unregister(peer)
        self._buffers.pop(peer.fileno(), None)
        self._clients.pop(peer.fileno(), None)
        peer.close()

    def close(self) -> None:
        """Close the socket and all connections."""
        self._open = False
        self._thread.join()
        for peer in (self._sock, *self._clients.values()):
            peer.close()
        self._selector.close()


def for_ranks(spec: Optional[Dict[str, Any]], name: str) -> Optional[Server]:
    """Start the server that a host's spec requests; None if it requests none. Raises OSError."""
    if not spec:
        return None
    return Server(str(spec["address"]), int(spec["port"]), Board(int(spec["size"]), name))
