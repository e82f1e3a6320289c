"""Chromium, and pages of the studio in it, for tests of what a visitor does.

The fixtures are made known by `conftest`; a module that uses `visit` has a fixture `studio`.
"""

import shutil
import time

import pytest

from studios import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (  # of one that is on a closed network
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Trainings make two updates a second until the page asks for more, so that none ends before a test has
# steered it, however slow the browser is. The page's sockets are kept, to be cut.
STEADY = """
  const send = WebSocket.prototype.send;
  window.sockets = new Set();
  WebSocket.prototype.send = function (text) {
    const told = JSON.parse(text);
    window.sockets.add(this);
    send.call(this, told.ask === "train" ? JSON.stringify({ ...told, pace: 2 }) : text);
  };
"""

TARGETS = """() => {
  const which = ":is(main, header) :is(button, select, textarea, input, summary), header a";
  const targets = [...document.querySelectorAll(which)]
    .filter((it) => it.checkVisibility() && !it.closest(".drop") && !it.closest(".tip > div"))
    .map((it) => (["radio", "checkbox"].includes(it.type) && it.closest("label")) || it)
    .filter((it) => it.getBoundingClientRect().width);
  const told = (it) => `${it.tagName} ${it.textContent.slice(0, 40)} ${it.className}`;
"""
SMALL = """
  return targets
    .map((it) => [it, it.getBoundingClientRect()])
    .filter(([, box]) => box.height < 23.5 || box.width < 23.5)
    .map(([it, box]) => `${box.width} x ${box.height}: ${told(it)}`);
}"""
COVERED = """
  return targets
    .filter((it) => {
      it.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      const box = it.getBoundingClientRect();
      const there = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
      return !there || !(it.contains(there) || there.contains(it));
    })
    .map(told);
}"""

browses = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; `make chromium` installs it")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as found:
        chromium = found.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield chromium
        chromium.close()


class Visit:
    """A page of the studio; what its console complains of, and whom else it asks, fails the test."""

    def __init__(self, studio, browser, width=1400, scheme="light", tour=False, steady=False, **more):
        self.studio = studio
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **more
        )
        self.page = self.context.new_page()
        if steady:
            self.page.add_init_script(STEADY)
        self.page.set_default_timeout(1000 * PATIENCE)
        self.complaints, self.strangers = [], []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.goto(studio.address)
        if not tour:
            self.button("No, thanks").click()

    def _heard(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request):
        if not request.url.startswith((self.studio.origin, "data:", "blob:")):
            self.strangers.append(request.url)

    def go(self, view, **given):
        query = "&".join(f"{k}={v}" for k, v in given.items())
        self.page.evaluate("to => { location.hash = to; }", f"#/{view}{'?' + query if query else ''}")
        self.page.get_by_role("heading", name=view.capitalize()).first.wait_for()

    def button(self, name, exact=True):
        return self.page.get_by_role("button", name=name, exact=exact)

    def until(self, expression, given=None, seconds=PATIENCE):
        """Polls: the page's policy forbids the eval that Playwright waits with."""
        end = time.monotonic() + seconds
        while not (found := self.page.evaluate(expression, given)):
            assert time.monotonic() < end, (expression, self.complaints)
            time.sleep(0.03)
        return found

    def status(self, number=0):
        return self.page.locator(".panel .badge").nth(number).text_content()

    def until_status(self, wanted, number=0):
        badge = "document.querySelectorAll('.panel .badge')[n]?.textContent"
        self.until(f"([n, wanted]) => wanted.includes({badge})", [number, wanted])

    def dreams(self):
        self.until("() => Number(document.documentElement.dataset.fps) > 0")

    def overflows(self):
        return self.page.evaluate("() => document.documentElement.scrollWidth > window.innerWidth")

    def small_targets(self):
        """What one clicks or touches that is less than 24 pixels high or wide, but for links within a
        sentence."""
        return self.page.evaluate(TARGETS + SMALL)

    def covered_targets(self):
        """What one clicks, in the middle of which something else lies once it is scrolled to."""
        return self.page.evaluate(TARGETS + COVERED)

    def close(self):
        self.context.close()
        assert self.complaints == [], self.complaints
        assert self.strangers == []


@pytest.fixture
def visit(studio, browser):
    visits = []

    def begin(**given):
        visits.append(Visit(studio, browser, **given))
        return visits[-1]

    yield begin
    for one in visits:
        one.close()
