"""`certificate verify` keeps no account of the file in memory."""

import tracemalloc
from collections.abc import Iterator
from hashlib import sha256

from migration_payloads.files import certificates as format_


def test_many_accounts_are_verified_in_constant_memory() -> None:
    size, roots = 10_000, format_.Roots()
    for number in range(size):
        roots.add(sha256(b"%d" % number).digest())
    parts = {name: format_.encode({"part": name, "of": size}) for name in format_.PARTS}
    head = {"part": "certificate", "version": 1, "certificate_id": "1", "import_supplier": "S", "scope": None}
    head |= {"made_at": "now", "accounts": size, "root": roots.root().hex()}
    head |= {"parts": {name: sha256(line).hexdigest() for name, line in parts.items()}}
    signature = {"part": "signature", "algorithm": "Ed25519", "public_key": "00" * 32, "signature": "00" * 64}
    beginning = [format_.encode(head), format_.encode(signature), *parts.values()]

    def lines() -> Iterator[bytes]:
        yield from (line + b"\n" for line in beginning)
        for number in range(size):
            yield b'{"leaf":"%b"}\n' % sha256(b"%d" % number).hexdigest().encode()

    tracemalloc.start()
    try:
        found, _, _ = format_.verify_certificate(lines(), lambda *_: True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["accounts"] == size
    assert peak < 200_000  # of a file of seven hundred thousand
