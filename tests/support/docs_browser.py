"""A folder of pages, served and looked at in a real browser; for the tests of the site."""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.parse import urldefrag

import pytest

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")
WIDE, NARROW = 1280, 400  # pixels
# A package that has axe-core as a file. Nothing of it is imported, nor what it depends on.
AXE = "axe_playwright_python"
# What axe-core does not look at: scikit-learn's diagram, which is scikit-learn's to repair; and on
# most pages what is long and has colours that a few pages show, as it takes most of the time.
FOREIGN = [".sk-top-container"]
LONG = ["math", "pre span", "tbody", ".genindextable", ".sidebar-drawer", ".toc-drawer"]
LONG += [".sig > *", ".py.method", ".py.attribute", ".py.property"]
# The upper left cell of a table may be empty.
LEFT_OUT = ["empty-table-header"]
# Of every page: where its links lead, what can be led to, and what it had to load.
READ = """
return [
  [...document.querySelectorAll('a[href]')].map(a => a.href),
  [...document.querySelectorAll('[id]')].map(e => e.id),
  performance.getEntriesByType('resource').map(e => e.name)
]
"""
# What reaches out of the window and cannot be scrolled to: it is in no box that scrolls. What is
# moved out of the window on purpose, as the menus, is fixed there or begins outside.
OVERFLOW = """
const room = document.documentElement.clientWidth;
const free = e => {
  for (; e && e !== document.body; e = e.parentElement) {
    const style = getComputedStyle(e);
    if (['auto', 'scroll'].includes(style.overflowX) || style.position === 'fixed') return false;
  }
  return true;
};
const out = e => {
  const box = e.getBoundingClientRect();
  return box.width > 1 && box.left < room && box.right > room + 1;
};
return [...document.querySelectorAll('body *')].filter(e => out(e) && free(e))
  .slice(0, 3).map(e => e.outerHTML.slice(0, 160));
"""
RUN_AXE = """
const [hidden, settings, done] = arguments;
const words = v => v.nodes.slice(0, 3).map(
  n => v.id + ': ' + n.html.slice(0, 160) + ' ' + n.any.map(a => a.message));
axe.run({exclude: hidden.map(place => [place])}, {...settings, resultTypes: ['violations']})
  .then(found => done(found.violations.flatMap(words)), fault => done([String(fault)]));
"""


@dataclass
class Site:
    """A folder that is served, and the paths that were asked for in vain."""

    address: str
    missing: list[str] = field(default_factory=list)


class Handler(SimpleHTTPRequestHandler):
    """Serve a folder in silence, and keep what is missing."""

    def __init__(self, *request, missing, **settings):
        self.missing = missing
        super().__init__(*request, **settings)

    def log_message(self, *message):
        pass

    def send_error(self, code, *message):
        self.missing.append(self.path)
        super().send_error(code, *message)


@contextmanager
def served(folder):
    """Serve a folder on a free port of this machine."""
    missing = []
    handler = partial(Handler, directory=str(folder), missing=missing)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Site(f"http://127.0.0.1:{server.server_port}/", missing)
        server.shutdown()


@contextmanager
def chromium():
    """Open a headless Chromium, steered by the driver that belongs to it."""
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no chromium, or no chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as chrome:
        chrome.set_page_load_timeout(30)
        chrome.set_script_timeout(60)
        if (source := axe_source()) is not None:
            here = "Page.addScriptToEvaluateOnNewDocument"
            chrome.execute_cdp_cmd(here, {"source": source})
        show(chrome, WIDE)
        yield chrome


def axe_source():
    """Return the script of axe-core, or None where it is not installed."""
    spec = find_spec(AXE)
    return spec and Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")


def axe(browser, hidden, *rules):
    """Return what axe-core finds on the page that is open, by all its rules or by those named."""
    off = {name: {"enabled": False} for name in LEFT_OUT}
    only = {"runOnly": {"type": "rule", "values": rules}} if rules else {"rules": off}
    return browser.execute_async_script(RUN_AXE, hidden, only)


def show(browser, width, theme="light"):
    """Give the window a width, and the page light or dark colours."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


@dataclass
class Page:
    """What was seen on a page: each fault is a sentence."""

    links: list[tuple[str, str]]
    places: set[str]
    loaded: list[str]
    logs: list[str]
    narrow: list[str]
    barriers: list[str]


def look(browser, url, hidden=None):
    """Load a page once, and look at it in every way.

    ``hidden`` is what axe-core leaves out, None if it is not asked. Where nothing of ours is left
    out, dark colours are looked at, too.
    """
    browser.get(url)
    out, ids, loaded = browser.execute_script(READ)
    barriers = []
    if hidden is not None:
        barriers = axe(browser, hidden)
    if hidden == FOREIGN:
        show(browser, WIDE, "dark")
        barriers += [f"dark: {words}" for words in axe(browser, hidden, "color-contrast")]
    show(browser, NARROW)
    narrow = browser.execute_script(OVERFLOW)
    show(browser, WIDE)
    logs = [entry["message"] for entry in browser.get_log("browser")]
    return Page([urldefrag(link) for link in out], {"", *ids}, loaded, logs, narrow, barriers)


def walk(browser, site, first, hidden):
    """Follow all links from the first pages; return what was seen of each page.

    ``hidden`` tells what axe-core does not look at, from the path of a page.
    """
    seen, waiting = {}, [site.address + page for page in first]
    while waiting:
        url = waiting.pop()
        if url not in seen:
            seen[url] = page = look(browser, url, hidden(url.removeprefix(site.address)))
            waiting += [u for u, _ in page.links if u.startswith(site.address) and is_page(u)]
    return seen


def is_page(url):
    return url.endswith((".html", "/"))
