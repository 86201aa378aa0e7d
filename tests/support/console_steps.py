"""How tests of the console in a real browser begin: somebody logs in, and there is a book."""

from zlib import crc32

import msgspec

from drill.scene import Scene
from migration_service_local.samples import generate_accounts
from support.browser import Visitor


def log_in(visitor: Visitor, scene: Scene) -> None:
    """Log in as the first operator."""
    visitor.log_in("admin", (scene.home / "console-password").read_text().strip())


def book_of(code: str, accounts: int, *, broken: float) -> list[bytes]:
    """Return the lines of a book. Every supplier has other numbers, so that a search finds one account."""
    book = generate_accounts(accounts, supplier=code, seed=crc32(code.encode()), broken_share=broken)
    return [msgspec.json.encode(account) for account in book]
