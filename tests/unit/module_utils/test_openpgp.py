"""Fingerprints of OpenPGP keys equal gpg's, and what is not a key is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.ddp.play.plugins.module_utils import openpgp

from tests.unit.modules.test_repository_key import KEY, Gpg

needs_gpg = pytest.mark.skipif(not shutil.which("gpg"), reason="needs gpg")


@needs_gpg
@pytest.mark.parametrize("kind", ["ed25519", "rsa2048"])
def test_a_fingerprint_equals_that_of_gpg(tmp_path: Path, kind: str) -> None:
    gpg = Gpg(tmp_path)
    text = gpg.make("site@example.invalid", kind)
    listed = subprocess.run(
        ["gpg", "--homedir", str(tmp_path), "--with-colons", "--list-keys"], capture_output=True, text=True, check=True
    ).stdout
    primary = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
    assert openpgp.fingerprints(text) == [primary]


@needs_gpg
def test_every_primary_key_of_a_file_counts(tmp_path: Path) -> None:
    """A second key in the file of the vendor would be trusted too."""
    gpg = Gpg(tmp_path)
    first, second = gpg.make("one@example.invalid"), gpg.make("two@example.invalid")
    known = openpgp.fingerprints(first)
    both = gpg.export()
    for text in (first + second, both):
        assert len(openpgp.fingerprints(text)) == 2
        assert openpgp.unknown(openpgp.fingerprints(text), known) == openpgp.fingerprints(second)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html>502 Bad Gateway</html>",
        KEY.replace(b"mDME", b"////"),
        KEY.replace(b"-----END PGP PUBLIC KEY BLOCK-----", b""),
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n",
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n%%%%\n-----END PGP PUBLIC KEY BLOCK-----\n",
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMG\n-----END PGP PUBLIC KEY BLOCK-----\n",
    ],
)
def test_what_is_no_key_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        openpgp.fingerprints(text)


@pytest.mark.parametrize(
    ("known", "refused"),
    [
        (["AAAABBBBCCCCDDDDEEEEAAAABBBBCCCCDDDDEEEE"], []),
        (["aaaa bbbb cccc dddd eeee  aaaa bbbb cccc dddd eeee"], []),
        (["0xDDDDEEEE"], []),
        (["DDDDEEEE", "11112222"], []),
        (["EEEE"], ["AAAABBBBCCCCDDDDEEEEAAAABBBBCCCCDDDDEEEE"]),
        ([""], ["AAAABBBBCCCCDDDDEEEEAAAABBBBCCCCDDDDEEEE"]),
        ([], ["AAAABBBBCCCCDDDDEEEEAAAABBBBCCCCDDDDEEEE"]),
        (["AAAABBBBCCCCDDDDEEEEAAAABBBBCCCCDDDDEEEF"], ["AAAABBBBCCCCDDDDEEEEAAAABBBBCCCCDDDDEEEE"]),
    ],
)
def test_a_known_fingerprint_may_be_written_in_groups_or_be_an_id(known: list[str], refused: list[str]) -> None:
    assert openpgp.unknown(["AAAABBBBCCCCDDDDEEEEAAAABBBBCCCCDDDDEEEE"], known) == refused
