"""Fingerprints of the OpenPGP keys in an ASCII-armoured file, computed here: a bare host may have no gpg."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Iterator, List, Sequence, Tuple

BEGIN, END = b"-----BEGIN PGP PUBLIC KEY BLOCK-----", b"-----END PGP PUBLIC KEY BLOCK-----"
# Headers, an empty line, base64, a checksum.
BLOCK = re.compile(BEGIN + rb"\n((?:[A-Za-z]+: ?[^\n]*\n)*)\n([A-Za-z0-9+/=\n]+?)\n(?:=[A-Za-z0-9+/]{4}\n)?" + END)
SECRET_KEY, PUBLIC_KEY, SECRET_SUBKEY = 5, 6, 7
MIN_ID_CHARS = 8


def blocks(text: bytes) -> Iterator[bytes]:
    """The packets of each armoured block; ValueError for a block that other programs might read in another way."""
    lines = b"\n".join(line.rstrip() for line in text.splitlines())
    if b"-----BEGIN" in BLOCK.sub(b"", lines):
        raise ValueError("an armoured block that is damaged or no public key")
    for _, body in BLOCK.findall(lines):
        try:
            yield base64.b64decode(body.replace(b"\n", b""), validate=True)
        except binascii.Error as error:
            raise ValueError("no valid base64: %s" % error) from error


def packet_length(data: bytes, position: int, new_format: bool, kind: int) -> Tuple[int, int]:
    """Length of a packet's body, and where the body starts; `kind` is the length type of the old format."""
    if new_format:
        first = data[position]
        if first < 192:
            return first, position + 1
        if first < 224:
            return ((first - 192) << 8) + data[position + 1] + 192, position + 2
        kind, position = (2, position + 1) if first == 255 else (3, position)
    if kind == 3:
        raise ValueError("a packet of unknown length")
    size = 1 << kind
    return int.from_bytes(data[position : position + size], "big"), position + size


def packets(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """Tag and body of each packet (RFC 4880, section 4.2)."""
    position = 0
    while position < len(data):
        head = data[position]
        if not head & 0x80:
            raise ValueError("no packet at byte %d" % position)
        new_format = bool(head & 0x40)
        length, start = packet_length(data, position + 1, new_format, head & 3)
        position = start + length
        if position > len(data):
            raise ValueError("a packet is cut off")
        yield (head & 0x3F if new_format else head >> 2 & 0xF), data[start:position]


def fingerprint(body: bytes) -> str:
    """Fingerprint of a public key of version 4 (RFC 4880, section 12.2)."""
    if not body or body[0] != 4:
        raise ValueError("a key of another version than 4")
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()


def fingerprints(text: bytes) -> List[str]:
    """Fingerprints of all primary keys in the file; ValueError if it has none or anything unreadable."""
    try:
        found = [packet for block in blocks(text) for packet in packets(block)]
    except IndexError as error:
        raise ValueError("a packet is cut off") from error
    if any(tag in (SECRET_KEY, SECRET_SUBKEY) for tag, _ in found):
        raise ValueError("a secret key")
    keys = [fingerprint(body) for tag, body in found if tag == PUBLIC_KEY]
    if not keys:
        raise ValueError("no ASCII-armoured public key")
    return keys


def unknown(found: Sequence[str], known: Sequence[str]) -> List[str]:
    """Fingerprints that are none of the known ones; a known one may be only a key's id, the fingerprint's end."""
    ends = tuple(plain(one) for one in known if len(plain(one)) >= MIN_ID_CHARS)
    return [one for one in found if not one.endswith(ends)] if ends else list(found)


def plain(written: str) -> str:
    """A fingerprint without blanks, colons and the prefix 0x, in capitals."""
    return re.sub(r"^0X|[\s:]", "", str(written).strip().upper())
