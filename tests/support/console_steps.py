"""What people do in the console in a real browser: they log in, upload a file, and wait for a state."""

from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from playwright.sync_api import expect

from drill.scene import TEAM, Scene
from migration_service_local.samples import generate_accounts
from support.browser import Visitor

#: Milliseconds after which a page has to show what it is waited for.
PATIENCE = 90_000


def log_in(visitor: Visitor, scene: Scene) -> None:
    """Log in as the first operator."""
    visitor.log_in("admin", (scene.home / "console-password").read_text().strip())


def upload(visitor: Visitor, code: str, file: Path, step: str, kind: str = "accounts") -> None:
    """Upload a file, and see the page of its batch."""
    visitor.open(f"/suppliers/{code}/upload/")
    visitor.page.select_option("#kind", kind)
    visitor.page.check(f"#step-{step}")
    visitor.page.select_option("#team", TEAM)
    visitor.page.set_input_files("#file", file)
    visitor.page.click("text=Upload >> nth=-1")
    # What takes longer than a few seconds leads there, too, but without its message.
    visitor.page.wait_for_url("**/batches/*/")


def wait_for_end(visitor: Visitor, patience: int) -> int:
    """Wait until the batch is over. Return how many lines failed."""
    wait_for(visitor, "COMPLETED", patience)
    failed = visitor.page.locator(".lead").inner_text().split(", ")[1].split()[0]
    return int(failed.replace(",", ""))


def wait_for(visitor: Visitor, state: str, patience: int = PATIENCE) -> None:
    """Wait until the first sentence of the page has a state. The page moves by itself."""
    page = visitor.page
    page.evaluate("window.seen = 'this very page'")
    expect(page.locator(".lead")).to_contain_text(state, timeout=patience)
    assert page.evaluate("window.seen") == "this very page"


def book_of(code: str, accounts: int, *, broken: float) -> list[bytes]:
    """Return the lines of a book. Every supplier has other numbers, so that a search finds one account."""
    book = generate_accounts(accounts, supplier=code, seed=crc32(code.encode()), broken_share=broken)
    return [msgspec.json.encode(account) for account in book]


def number_on(line: bytes) -> Any:
    return msgspec.json.decode(line).get("external_account_number")
