"""The script of the console in a real browser: when it asks again, and what it says when that fails."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from drill.scene import Scene
from support.browser import Visitor, needs_chromium

pytestmark = needs_chromium

#: A page that moves asks again after two seconds.
_STEP = 2_000
_PART = "**/work/?part=1"


@pytest.fixture
def visitor(scene: Scene, browser: Browser) -> Iterator[Visitor]:
    with Visitor.arrive(browser, f"{scene.address.url}/console") as visitor:
        visitor.log_in("admin", (scene.home / "console-password").read_text().strip())
        yield visitor


class Watched:
    """A page that asks for its moving part, and whose time stands still until the test moves it."""

    def __init__(self, visitor: Visitor) -> None:
        self.page, self.asked = visitor.page, 0
        now = datetime.now(UTC)
        self.page.clock.install(time=now)
        self.page.clock.pause_at(now + timedelta(seconds=1))
        self.page.on("request", lambda request: self._count(request.url))
        visitor.open("/work/")

    def _count(self, url: str) -> None:
        self.asked += "part=1" in url

    def wait(self, milliseconds: int) -> int:
        """Let time pass. Return how often the page has asked so far."""
        self.page.clock.run_for(milliseconds)
        self.page.evaluate("new Promise(queueMicrotask)")
        return self.asked

    def hide(self, hidden: bool) -> None:
        """Put the tab into the background, or back."""
        self.page.evaluate(
            "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )


def test_a_hidden_tab_asks_for_nothing(visitor: Visitor) -> None:
    watched = Watched(visitor)
    with watched.page.expect_response(_PART):
        watched.wait(_STEP)
    watched.hide(True)
    asked = watched.asked
    assert watched.wait(60_000) == asked
    watched.hide(False)
    with watched.page.expect_response(_PART):
        watched.wait(1)
    assert visitor.complaints == []


def test_a_page_that_gets_no_answer_says_so_and_asks_less_and_less_often(visitor: Visitor) -> None:
    watched = Watched(visitor)
    page, old = watched.page, watched.page.locator(".only-stale")
    expect(old).to_be_hidden()
    page.route(_PART, lambda route: route.abort())
    for seconds in (2, 2, 4, 8):
        before = watched.asked
        assert watched.wait(1_000 * seconds - 100) == before
        with page.expect_event("requestfailed"):
            watched.wait(100)
        expect(old).to_be_visible()
    expect(page.locator("#announce")).to_contain_text("The service does not answer: these numbers are old.")
    page.unroute(_PART)
    with page.expect_response(_PART):
        watched.wait(16_000)
    expect(old).to_be_hidden()


def test_a_page_says_that_the_session_has_ended_and_asks_no_more(visitor: Visitor) -> None:
    watched = Watched(visitor)
    watched.page.context.clear_cookies()
    with watched.page.expect_response(_PART):
        watched.wait(_STEP)
    expect(watched.page.locator("main")).to_contain_text("Your session has ended.")
    asked = watched.asked
    assert watched.wait(60_000) == asked


def test_what_a_page_may_not_load_is_among_its_complaints(visitor: Visitor) -> None:
    page = visitor.page
    with page.expect_console_message():
        page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))")
    with page.expect_console_message():
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('style'), {textContent: 'p {}'}))"
        )
    assert all("Content Security Policy" in complaint for complaint in visitor.complaints)
    assert len(visitor.complaints) == 2


def test_a_page_is_used_with_the_keyboard_alone(scene: Scene, browser: Browser) -> None:
    with Visitor.arrive(browser, f"{scene.address.url}/console") as visitor:
        page = visitor.page
        visitor.open("/login/")
        expect(page.locator("#name")).to_be_focused()
        page.keyboard.type("admin")
        page.keyboard.press("Tab")
        page.keyboard.type((scene.home / "console-password").read_text().strip())
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visitor.base}/")

        page.keyboard.press("Tab")
        expect(page.locator(".skip-link")).to_be_focused()
        expect(page.locator(".skip-link")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()

        visitor.open("/work/")
        seen: list[str] = []
        while "Refresh" not in seen and len(seen) < 30:
            page.keyboard.press("Tab")
            name, outline = page.evaluate(
                "(() => { const it = document.activeElement;"
                " return [it.id || it.textContent.trim(), getComputedStyle(it).outlineStyle]; })()"
            )
            assert outline != "none", name
            seen.append(name)
        assert seen[-1] == "Refresh"
        assert {"Waves", "REST interface", "Workers (Flower)"} <= set(seen)
        page.locator(".menu summary").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".menu-body")).to_be_visible()
