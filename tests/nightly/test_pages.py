"""History, site and report in a real browser: on a desk and on a phone, light and dark; they say nothing, ask nobody, and can be read."""

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nightfit.config import load
from nightfit.nightly.history import History
from nightfit.nightly.site import write_site
from nightfit.release.html import html_page, table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: chromium is not installed, so that NO PAGE WAS OPENED in one"),
]
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
PHONE, DESK = 390, 1280
MOST_TALL = 160  # pixels of a cell: six lines

# What a page shows: how wide it is, and each text that is too faint for its ground (WCAG 2.2, level AA: 4.5, or 3 for large text).
LOOK = """
(() => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const faint = [], wide = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; node = walk.nextNode();) {
    const element = node.parentElement, style = getComputedStyle(element);
    if (!node.data.trim() || ["SCRIPT", "STYLE", "TITLE"].includes(element.tagName) || !element.checkVisibility()) continue;
    const ink = numbers(element.closest("svg") ? style.fill : style.color).slice(0, 3);
    const [one, other] = [light(ink), light(ground(element))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if ((one + 0.05) / (other + 0.05) < (large ? 3 : 4.5)) faint.push(node.data.trim().slice(0, 40));
  }
  for (const element of document.querySelectorAll("body *")) {
    const scrolls = element.parentElement.closest(".wide, .chart"), {right} = element.getBoundingClientRect();
    if (!scrolls && element.checkVisibility() && right > document.documentElement.clientWidth + 1) wide.push(element.tagName);
  }
  const tallest = Math.max(0, ...[...document.querySelectorAll("td")].map(cell => cell.getBoundingClientRect().height));
  return {faint, wide, tallest, scroll: document.documentElement.scrollWidth, text: document.body.innerText,
    dark: light(ground(document.body)) < 0.5};
})()
"""


class Browser:
    """Chromium, spoken to over a pair of pipes; it can reach no host."""

    def __init__(self, profile: Path) -> None:
        theirs, self.out = os.pipe()
        self.into, ours = os.pipe()
        told = ["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{ours} 2>/dev/null', "bash", str(CHROMIUM), *QUIET]
        self.child = subprocess.Popen([*told, "--remote-debugging-pipe", f"--user-data-dir={profile}"], pass_fds=(theirs, ours))
        for end in (theirs, ours):
            os.close(end)
        self.numbers, self.rest = itertools.count(1), b""
        self.heard: list[dict[str, Any]] = []
        self.session: str | None = None

    def begin(self) -> None:
        """Open a page to look at."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Page.setLifecycleEventsEnabled", enabled=True)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command; what happens meanwhile is kept in `heard`."""
        number = next(self.numbers)
        content = {"id": number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.out, json.dumps(content).encode() + b"\0")
        while (said := self._said()).get("id") != number:
            self.heard.append(said)
        assert "result" in said, said
        return dict(said["result"])

    def _said(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = os.read(self.into, 2**16)
            assert more, "the browser ended"
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return dict(json.loads(one))

    def opened(self, address: str, width: int = DESK, scheme: str = "light") -> tuple[dict[str, Any], list[Any], set[str]]:
        """How a page looks, what its console said, and which addresses it asked for beside itself."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width == PHONE)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for url in ("about:blank", address):  # the first, so that an address with another fragment is loaded anew
            self.heard = []
            loader = self.ask("Page.navigate", url=url)["loaderId"]
            while not any(_is_loaded(one, loader) for one in self.heard):
                self.heard.append(self._said())
        look = self.ask("Runtime.evaluate", expression=LOOK, returnByValue=True)["result"]["value"]
        said = [
            one["params"]
            for one in self.heard
            if one.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        ]
        sent = {one["params"]["request"]["url"] for one in self.heard if one.get("method") == "Network.requestWillBeSent"}
        return look, said, {url for url in sent if not url.startswith(("file:", "data:"))}

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.into)
        os.close(self.out)


def _is_loaded(said: dict[str, Any], loader: str) -> bool:
    of = said.get("params", {})
    return said.get("method") == "Page.lifecycleEvent" and (of["name"], of["loaderId"]) == ("load", loader)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("browser"))
    try:
        made.begin()
        yield made
    finally:
        made.end()


PLANTED = """<meta name=viewport content="width=device-width"><style>p {{ color: {ink} }} div {{ width: {width}px }}</style>
<p>words</p><div>wide</div>{more}"""


def test_the_browser_would_see_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "planted.html"
    more = '<img src="http://elsewhere.invalid/x.png"><script>console.error("oh")</script>'
    page.write_text(PLANTED.format(ink="#999", width=600, more=more))
    look, said, asked = browser.opened(f"file://{page}", PHONE)
    assert (look["faint"], look["wide"]) == (["words"], ["DIV"])
    assert look["scroll"] > PHONE
    assert len(said) >= 1
    assert asked == {"http://elsewhere.invalid/x.png"}
    page.write_text(PLANTED.format(ink="#333", width=100, more=""))
    look, said, asked = browser.opened(f"file://{page}", PHONE)
    assert (look["faint"], look["wide"], look["scroll"], said, asked) == ([], [], PHONE, [], set())


def test_a_sentence_between_numbers_is_not_squeezed(browser: Browser, tmp_path: Path) -> None:
    sentence = "shrunk by 20%: its estimate lies 2.7 standard errors from zero"
    (tmp_path / "page.html").write_text(
        html_page("t", table(("", *"abcdef", "why", "g"), [("age", *["0.123 to 0.456"] * 6, sentence, "1 to 2")]))
    )
    for width in (DESK, PHONE):
        assert browser.opened(f"file://{tmp_path / 'page.html'}", width)[0]["tallest"] < MOST_TALL


def test_the_pages_can_be_read_on_a_phone_and_in_the_dark_and_ask_no_other_host(
    browser: Browser, told: Callable[[], History], tmp_path: Path
) -> None:
    assert len(told().nights) == 5
    index, _ = write_site([load(tmp_path / "refit.yaml")], tmp_path / "site")
    report = next(index.parent.rglob("visits-clinic/*.html"))
    pages = {
        f"{index}#missed": "1 of 5 nights",
        str(index.with_name("visits-clinic.html")): "until about",
        str(report): "differentially private",
    }
    for (page, words), width, scheme in itertools.product(pages.items(), (DESK, PHONE), ("light", "dark")):
        look, said, asked = browser.opened(f"file://{page}", width, scheme)
        assert words in look["text"], (page, width)
        assert look["dark"] is (scheme == "dark")
        assert look["faint"] == [], (page, width, scheme)
        assert look["tallest"] < MOST_TALL, (page, width)
        assert (look["scroll"] <= width, look["wide"]) == (True, []), (page, width)
        assert (said, asked) == ([], set()), page
