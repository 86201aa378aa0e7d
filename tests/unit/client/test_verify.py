"""What `certificate verify` refuses: whatever was changed, dropped, added or moved, and it names the part."""

import tracemalloc
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from migration_payloads.files import certificates as format_
from migration_payloads.schemas.json import parse_json
from migration_service_client.command import main

_KEY, _OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([it]) * 32) for it in (1, 2))
_PUBLIC = _KEY.public_key().public_bytes_raw().hex()
_LINES = ("head", "signature", *format_.PARTS)
_Lines = list[bytes]


def _entry(number: int) -> dict[str, Any]:
    salt = sha256(b"salt %d" % number).digest()
    sent = format_.salted(salt, b"%d" % number)
    numbers = {"external_account_number": str(number), "service_account_number": f"A-{number}"}
    return {**numbers, "sent": sent, "created": sent, "salt": salt.hex()}


def _write(values: list[Any]) -> _Lines:
    return [format_.encode(it) + b"\n" for it in values]


def _begin(size: int, root: bytes, key: Ed25519PrivateKey = _KEY, **others: Any) -> _Lines:
    """Return the lines before those of the accounts."""
    parts = _write([{"part": name, "of": size} for name in format_.PARTS])
    hashes = {name: sha256(line[:-1]).hexdigest() for name, line in zip(format_.PARTS, parts, strict=True)}
    head = {"part": "certificate", "version": 1, "certificate_id": "1", "import_supplier": "S", "scope": None}
    head |= {"made_at": "now", "accounts": size, "root": root.hex(), "parts": hashes, **others}
    (written,) = _write([head])
    signature = key.sign(format_.signed_text(written[:-1])).hex()
    public = key.public_key().public_bytes_raw().hex()
    line = {"part": "signature", "algorithm": "Ed25519", "public_key": public, "signature": signature}
    return [written, *_write([line]), *parts]


def _whole(size: int = 5) -> _Lines:
    leaves = [format_.leaf_of(_entry(it)) for it in range(size)]
    return [*_begin(size, format_.fold(leaves)), *_write([{"leaf": it.hex()} for it in leaves])]


def _proof(account: int = 4, **changed: Any) -> _Lines:
    leaves = [format_.leaf_of(_entry(it)) for it in range(5)]
    path = [it.hex() for it in format_.find_path(leaves, account)]
    proof = {"part": "account", "number": account + 1, "entry": _entry(account), "path": path}
    return [*_begin(5, format_.fold(leaves)), *_write([proof | changed])]


def _edit(change: Callable[[_Lines], Any], lines: _Lines) -> _Lines:
    change(lines)
    return lines


def _verify(folder: Path, lines: _Lines, *options: str) -> Result:
    file = folder / "file"
    file.write_bytes(b"".join(lines))
    return CliRunner().invoke(main, ["certificate", "verify", str(file), "--key", _PUBLIC, *options])


@pytest.mark.parametrize("size", [0, 1, 2, 5, 1_023, 1_024, 1_025, 2_500])
def test_a_certificate_and_its_proofs_hold_at_any_size(size: int, tmp_path: Path) -> None:
    assert _verify(tmp_path, _whole(size)).exit_code == 0
    leaves = [format_.leaf_of(_entry(it)) for it in range(size)]
    root = format_.fold(leaves)
    for index in {0, size // 3, size // 2, size - 1} - {-1} if size else ():
        path = format_.find_path(leaves, index)
        assert format_.climb(leaves[index], index, size, path) == root
        assert format_.climb(leaves[index], index, size, [*path, root]) is None
        assert format_.climb(leaves[index], size, size, path) is None


#: What is done to a line, and which part is then named: the same, or the one that is expected there.
_DONE: dict[str, Callable[[_Lines, int], Any]] = {
    "changed": lambda lines, at: lines.__setitem__(at, lines[at].replace(b'"', b"'", 1)),
    "with a blank": lambda lines, at: lines.__setitem__(at, lines[at].replace(b":", b": ", 1)),
    "dropped": lambda lines, at: lines.pop(at),
    "moved": lambda lines, at: lines.insert(at + 1, lines.pop(at)),
    "with CRLF": lambda lines, at: lines.__setitem__(at, lines[at][:-1] + b"\r\n"),
}


@pytest.mark.parametrize("done", _DONE)
@pytest.mark.parametrize("at", range(len(_LINES)), ids=_LINES)
def test_no_line_before_the_accounts_can_be_touched(done: str, at: int, tmp_path: Path) -> None:
    found = _verify(tmp_path, _edit(lambda lines: _DONE[done](lines, at), _whole()))
    assert (found.exit_code, found.output.partition(":")[0]) == (1, _LINES[at]), found.output


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (_edit(lambda it: it.insert(0, it[0]), _whole()), "signature"),
        (_edit(lambda it: it.insert(2, it[2]), _whole()), "files"),
        (_edit(lambda it: it.clear(), _whole()), "head"),
        (_edit(lambda it: it.__setitem__(0, b"\xef\xbb\xbf" + it[0]), _whole()), "head"),
        ([*_begin(5, b"\0" * 32), *_whole()[8:]], "accounts"),
        ([*_begin(5, b"\0" * 31), *_whole()[8:]], "head"),
        ([_begin(4, b"\0" * 32)[0], *_whole()[1:]], "head"),
        ([*_begin(5, b"\0" * 32, parts=[]), *_whole()[8:]], "head"),
        ([*_begin(5, b"\0" * 32, accounts="5"), *_whole()[8:]], "head"),
        ([*_whole()[:2], *_whole(4)[2:8], *_whole()[8:]], "receipt"),
        ([*_begin(5, b"\0" * 32, _OTHER_KEY), *_whole()[8:]], "accounts"),
        ([*_whole()[:1], *_whole(4)[1:2], *_whole()[2:]], "head"),
        ([*_whole()[:1], _whole()[1].replace(b"Ed25519", b"none"), *_whole()[2:]], "head"),
        # The accounts.
        (_edit(lambda it: it.pop(), _whole()), "accounts"),
        (_edit(lambda it: it.pop(9), _whole()), "accounts"),
        (_whole()[:8], "accounts"),
        (_edit(lambda it: it.append(it[8]), _whole()), "account 6"),
        (_edit(lambda it: it.append(b"\n"), _whole()), "account 6"),
        (_edit(lambda it: it.insert(10, it[10]), _whole()), "account 6"),
        (_edit(lambda it: it.insert(9, it.pop(10)), _whole()), "accounts"),
        (_edit(lambda it: it.__setitem__(9, it[8]), _whole()), "accounts"),
        (_edit(lambda it: it.__setitem__(9, _whole(9)[15]), _whole()), "accounts"),
        (_edit(lambda it: it.__setitem__(9, it[9].upper()), _whole()), "account 2"),
        (_edit(lambda it: it.__setitem__(9, it[9].replace(b'"}', b'0"}')), _whole()), "account 2"),
        (_edit(lambda it: it.__setitem__(9, it[9].replace(b"}", b',"x":1}')), _whole()), "account 2"),
        (_edit(lambda it: it.__setitem__(9, b'{"leaf":null}\n'), _whole()), "account 2"),
        (_edit(lambda it: it.__setitem__(-1, it[-1][:-1]), _whole()), "account 5"),
        (_edit(lambda it: it.__setitem__(-1, it[-1][:20]), _whole()), "account 5"),
        # The proof of one account.
        (_proof(number=4), "account"),
        (_proof(number=1), "account"),
        (_proof(number=True), "account"),
        (_proof(number=10**30), "account"),
        (_proof(entry=_entry(3)), "account"),
        (_proof(entry=_entry(4) | {"sent": None}), "account"),
        (_proof(entry=_entry(4) | {"created": "00"}), "account"),
        (_proof(entry=_entry(4) | {"salt": ""}), "account"),
        (_proof(entry=_entry(4) | {"service_account_number": "A-5"}), "account"),
        (_proof(entry=_entry(4) | {"external_account_number": "5"}), "account"),
        (_proof(entry=_entry(4) | {"more": 1}), "account"),
        (_proof(entry=[]), "account"),
        (_proof(path=[]), "account"),
        (_proof(path=["00" * 32] * 3), "account"),
        (_proof(path=["00" * 32] * 99), "account"),
        (_proof(path=[1]), "account"),
        (_proof(path=parse_json(_proof()[-1])["path"] * 2), "account"),
        (_proof(1, path=parse_json(_proof(1)[-1])["path"][::-1]), "account"),
        ([*_proof(), *_proof()[-1:]], "account"),
        ([*_whole(4)[:8], *_proof()[8:]], "account"),
        ([*_whole()[:9], *_proof()[8:]], "account 2"),
    ],
)
def test_what_was_tampered_with_is_refused(lines: _Lines, part: str, tmp_path: Path) -> None:
    found = _verify(tmp_path, lines)
    assert (found.exit_code, found.output.partition(":")[0]) == (1, part), found.output
    assert "Traceback" not in found.output


def test_only_the_given_key_is_trusted(tmp_path: Path) -> None:
    leaves = [format_.leaf_of(_entry(0))]
    forged = [*_begin(1, format_.fold(leaves), _OTHER_KEY), *_write([{"leaf": leaves[0].hex()}])]
    found = _verify(tmp_path, forged)
    assert (found.exit_code, found.output.partition(":")[0]) == (1, "signature")
    file = tmp_path / "file"
    found = CliRunner().invoke(main, ["certificate", "verify", str(file)])
    assert (found.exit_code, "compare it with that of the service" in found.output) == (0, True)


def test_many_accounts_are_verified_in_constant_memory() -> None:
    size, roots = 30_000, format_.Roots()
    for number in range(size):
        roots.add(sha256(b"%d" % number).digest())
    beginning = _begin(size, roots.root())

    def lines() -> Iterator[bytes]:
        yield from beginning
        for number in range(size):
            yield b'{"leaf":"%b"}\n' % sha256(b"%d" % number).hexdigest().encode()

    tracemalloc.start()
    try:
        head, _, _ = format_.verify_certificate(lines(), lambda *_: True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert head["accounts"] == size
    assert peak < 300_000  # of a file of two million
