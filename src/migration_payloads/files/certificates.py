"""Certificates of what was migrated: their lines, the tree over their accounts (RFC 6962), and their check.

A certificate is NDJSON: its head, the signature of the head, its parts, and a line for each account. The head
has a hash of each part, and the root of the tree. The line of an account has only its leaf, so that it tells
nothing of the account. The proof of one account has the same first lines, and then its entry with the hashes
that lead from its leaf to the root. Every line is compact JSON, so that there is one way to write it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from migration_payloads.normal_form import read_json

#: The parts, in their order.
PARTS = ("receipt", "files", "acknowledgements", "approvals", "owners", "audit")
#: The leaves of a subtree that is kept as one hash: a power of two.
SUBTREE = 1_024
#: What is signed begins with this, so that no signature of another kind of text fits.
_CONTEXT = b"migration certificate 1\n"
_ENTRY = ("external_account_number", "service_account_number", "sent", "created", "salt")
_HEAD = (
    "part",
    "version",
    "certificate_id",
    "import_supplier",
    "scope",
    "made_at",
    "accounts",
    "root",
    "parts",
)
_LONGEST_PATH = 64
encode = msgspec.json.Encoder(decimal_format="number").encode


class CertificateError(ValueError):
    """A certificate does not hold. The text begins with the part that is wrong."""


def salted(salt: bytes, digest: bytes) -> str:
    """Return the hash of a payload that an entry has. `digest` is that of its normal form."""
    return sha256(salt + digest).hexdigest()


def leaf_of(entry: dict[str, Any]) -> bytes:
    """Return the leaf of an account."""
    return sha256(b"\0" + encode(entry)).digest()


def fold(hashes: Sequence[bytes]) -> bytes:
    """Return the root over leaves, or over the subtrees that they are in."""
    if len(hashes) < 2:
        return hashes[0] if hashes else sha256().digest()
    split = 1 << (len(hashes) - 1).bit_length() - 1
    return _join(fold(hashes[:split]), fold(hashes[split:]))


def find_path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that lead from one of these to their root, from below."""
    if len(hashes) < 2:
        return []
    split = 1 << (len(hashes) - 1).bit_length() - 1
    if index < split:
        return [*find_path(hashes[:split], index), fold(hashes[split:])]
    return [*find_path(hashes[split:], index - split), fold(hashes[:split])]


def climb(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root to which a path leads from the leaf at a place, or None if it has another length."""
    if not 0 <= index < size:
        return None
    found, last, rest = leaf, size - 1, iter(path)
    while last:
        if index % 2 or index < last:
            step = next(rest, None)
            if step is None:
                return None
            found = _join(step, found) if index % 2 else _join(found, step)
        index, last = index // 2, last // 2
    return found if next(rest, None) is None else None


def _join(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


class Roots:
    """The root over any number of leaves, of which only subtrees are kept."""

    def __init__(self) -> None:
        self.size = 0
        self._leaves: list[bytes] = []
        self._subtrees: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        """Add the next leaf."""
        self.size += 1
        self._leaves.append(leaf)
        if len(self._leaves) == SUBTREE:
            self._subtrees.append(fold(self._leaves))
            self._leaves = []

    def root(self) -> bytes:
        """Return the root over all leaves."""
        return fold([*self._subtrees, *([fold(self._leaves)] if self._leaves else [])])


def signed_text(head: bytes) -> bytes:
    """Return what is signed for the line with the head."""
    return _CONTEXT + head


def verify_certificate(
    lines: Iterable[bytes], is_signed: Callable[[bytes, bytes, bytes], bool]
) -> tuple[dict[str, Any], bytes, dict[str, Any] | None]:
    """Check a certificate or the proof of an account, in constant memory.

    `is_signed` tells whether a public key made a signature of a text. Return the head, the public key, and
    the account of a proof. Raise CertificateError with the part that was changed, dropped, added or moved.
    """
    rest = iter(lines)
    first = next(rest, b"")
    head = _read(first, "head", "certificate", _HEAD)
    signature = _read(
        next(rest, b""), "signature", "signature", ("part", "algorithm", "public_key", "signature")
    )
    is_head = isinstance(head["parts"], dict) and tuple(head["parts"]) == PARTS
    if not is_head or type(head["accounts"]) is not int:
        raise CertificateError("head: it does not name the parts.")
    key = _unhex(signature["public_key"], "signature", 32)
    if signature["algorithm"] != "Ed25519" or not is_signed(
        key, _unhex(signature["signature"], "signature", 64), signed_text(_text(first, "head"))
    ):
        raise CertificateError("head: the signature is not that of the head.")
    for part in PARTS:
        if sha256(_text(next(rest, b""), part)).hexdigest() != head["parts"][part]:
            raise CertificateError(f"{part}: it is not what was signed.")
    return head, key, _verify_accounts(rest, head)


def _verify_accounts(rest: Iterator[bytes], head: dict[str, Any]) -> dict[str, Any] | None:
    root, size = _unhex(head["root"], "head", 32), head["accounts"]
    roots = Roots()
    for number, line in enumerate(rest):
        if number == 0 and line.startswith(b'{"part":"account"'):
            return _verify_proof(line, rest, root, size)
        leaf = _read(line, f"account {number + 1}", None, ("leaf",))
        roots.add(_unhex(leaf["leaf"], f"account {number + 1}", 32))
        if roots.size > size:
            raise CertificateError(f"account {roots.size}: the certificate has only {size} accounts.")
    if roots.size != size:
        raise CertificateError(f"accounts: there are {roots.size} of {size}.")
    if roots.root() != root:
        raise CertificateError("accounts: a leaf was changed, or is at another place.")
    return None


def _verify_proof(line: bytes, rest: Iterator[bytes], root: bytes, size: int) -> dict[str, Any]:
    proof = _read(line, "account", "account", ("part", "number", "entry", "path"))
    entry, path = proof["entry"], proof["path"]
    if not isinstance(entry, dict) or tuple(entry) != _ENTRY or not isinstance(path, list):
        raise CertificateError("account: it has not the members of an entry.")
    steps = [_unhex(step, "account", 32) for step in path[:_LONGEST_PATH]]
    number = proof["number"]
    if type(number) is not int or climb(leaf_of(entry), number - 1, size, steps) != root:
        raise CertificateError("account: it is not the one at this place of the certificate.")
    if next(rest, None) is not None:
        raise CertificateError("account: more lines follow it.")
    return entry


def _text(line: bytes, place: str) -> bytes:
    """Return a line without its end, which it must have."""
    if not line.endswith(b"\n"):
        raise CertificateError(f"{place}: the line is missing, or cut.")
    return line[:-1]


def _read(line: bytes, place: str, part: str | None, members: tuple[str, ...]) -> dict[str, Any]:
    """Return the object of a line. Raise CertificateError unless it is written in the one way."""
    text = _text(line, place)
    try:
        found = read_json(text)
        is_exact = isinstance(found, dict) and tuple(found) == members and encode(found) == text
    except (ValueError, RecursionError):
        is_exact = False
    if not is_exact or (part is not None and found["part"] != part):
        raise CertificateError(f"{place}: it is missing, or not written as it was.")
    return found  # type: ignore[no-any-return]


def _unhex(text: Any, place: str, length: int) -> bytes:
    try:
        found = bytes.fromhex(text)
    except (TypeError, ValueError):
        found = b""
    if len(found) != length or found.hex() != text:
        raise CertificateError(f"{place}: it has no hash or key of {length} bytes.")
    return found
