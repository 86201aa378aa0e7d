"""A real browser: Debian's Chromium, driven by playwright. It notes what pages complain about."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect, sync_playwright

#: How Debian and others name it. The first one has no window, so it needs a quarter less processor time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)

# Pages take longer while other tests run.
expect.set_options(timeout=30_000)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="No Chromium is installed: apt-get install chromium-headless-shell"
)

#: The rules of WCAG 2.2, levels A and AA, and axe's best practices.
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: What may differ if a page has other colours and another size.
_RULES_OF_LOOKS = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]

_PLACES = """() => {
  const kind = (it) => it ? [it.tagName, ...it.classList].join('.') : '';
  return [...document.querySelectorAll('body *')].map((it) => kind(it.parentElement) + ' > ' + kind(it));
}"""

#: The options of a window.
LIGHT: dict[str, Any] = {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}}
DARK_PHONE: dict[str, Any] = {"color_scheme": "dark", "viewport": {"width": 375, "height": 812}}
#: A window at 200 %.
ZOOMED: dict[str, Any] = {"color_scheme": "dark", "viewport": {"width": 640, "height": 400}}
#: Codes as long as the longest ones. In a wide window tables scroll by themselves.
_LENGTHEN_CODES = """
for (const code of document.querySelectorAll("main code")) {
  const text = code.textContent.padEnd(45, "_code");
  if (!code.closest(innerWidth > 896 ? "table, pre" : "pre")) code.textContent = text;
}
"""

_FITS = """() => document.documentElement.scrollWidth <= innerWidth && (innerWidth > 896 ||
  [...document.querySelectorAll('.table-wrap')].every((it) => it.scrollWidth <= it.clientWidth))"""


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium. Its sandbox needs rights that containers rarely have."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visitor:
    """Somebody at a browser with a language, a size and a taste."""

    page: Page
    base: str
    #: What pages wrote into the browser's console, with the address.
    complaints: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def arrive(cls, browser: Browser, base: str, **options: Any) -> Iterator["Visitor"]:
        """Open a window."""
        context = browser.new_context(**({"locale": "en-GB", "timezone_id": "Europe/Amsterdam"} | options))
        context.set_default_timeout(30_000)
        visitor = cls(context.new_page(), base)
        visitor.page.on("console", lambda it: visitor.complaints.append(f"{visitor.page.url}: {it.text}"))
        visitor.page.on("pageerror", lambda it: visitor.complaints.append(f"{visitor.page.url}: {it}"))
        yield visitor
        context.close()

    @contextmanager
    def second_tab(self) -> Iterator["Visitor"]:
        """Open another tab of the same window."""
        page = self.page.context.new_page()
        yield Visitor(page, self.base)
        page.close()

    def log_in(self, name: str, password: str) -> None:
        """Log in with the form."""
        self.open("/login/")
        self.page.fill("#name", name)
        self.page.fill("#password", password)
        self.page.click("form[action$='/login/'] button")
        self.page.wait_for_url(f"{self.base}/")

    def open(self, path: str) -> None:
        """Open a page of the console."""
        self.page.goto(f"{self.base}{path}")

    def find_barriers(self, *, only_looks: bool = False) -> list[str]:
        """Let axe look at the page. Return what somebody could not use."""
        if self.page.evaluate("typeof axe") == "undefined":
            self.page.evaluate(AXE_SCRIPT)
            # The pages after this one load it by themselves, which costs less than to send it to each.
            self.page.context.add_init_script(AXE_SCRIPT)
        rules = _RULES_OF_LOOKS if only_looks else _RULES
        violations = self.page.evaluate(
            "async (options) => (await axe.run(options)).violations",
            {"runOnly": rules, "resultTypes": ["violations"]},
        )
        return [
            f"{self.page.url}: {found['id']}: {[node['html'][:200] for node in found['nodes']]}"
            for found in violations
        ]

    def places(self) -> set[str]:
        """Return the kinds of elements of the page, each with the kind of the element around it."""
        return set(self.page.evaluate(_PLACES))

    def look(self, looks: dict[str, Any]) -> None:
        """Give the window other colours and another size: `LIGHT` or `DARK_PHONE`."""
        self.page.emulate_media(color_scheme=looks["color_scheme"])
        self.page.set_viewport_size(looks["viewport"])

    def fits(self) -> bool:
        """Return whether the page is no wider than the window, even with the longest codes.

        In a narrow window, no table may be wider either.
        """
        self.page.evaluate(_LENGTHEN_CODES)
        return bool(self.page.evaluate(_FITS))
