"""The documentation site: no warning when it is built, and nothing broken in a real browser."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.parse import urldefrag

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path.parent.name for path in ROOT.glob("skdp/[a-z]*/__init__.py"))
# Pages of Sphinx's own that a form leads to, or none of ours.
MADE = ("search.html", "_modules/index.html")
BUILDERS = ("sphinx", "numpydoc", "myst_parser", "furo")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")
# Of every page: where its links lead, what can be led to, and what it had to load.
READ = """
return [
  [...document.querySelectorAll('a[href]')].map(a => a.href),
  [...document.querySelectorAll('[id]')].map(e => e.id),
  performance.getEntriesByType('resource').map(e => e.name)
]
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


@pytest.fixture(scope="module")
def browser():
    """Return a headless Chromium, steered by the driver that belongs to it."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no chromium, or no chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as chrome:
        chrome.set_page_load_timeout(30)
        yield chrome


def build(source, out):
    """Build a site as `make docs` does; return what makes it fail."""
    if any(find_spec(name) is None for name in BUILDERS):
        pytest.skip("the extra `docs` is not installed")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    folders = ["-d", str(out / "doctrees"), str(source), str(out / "html")]
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "docs")])}
    done = subprocess.run(
        [*command, *folders], env=os.environ | paths, capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder that SKDP_SITE names, or build the site anew."""
    if "SKDP_SITE" in os.environ:
        return Path(os.environ["SKDP_SITE"])
    out = tmp_path_factory.mktemp("site")
    said = build(ROOT / "docs", out)
    assert not said, said
    return out / "html"


def faults(browser, site, *first):
    """Follow all links from the first pages; return what is wrong, one sentence each."""
    found, links, places = [], {}, {}
    waiting = [site.address + page for page in ("index.html", *first)]
    while waiting:
        page = waiting.pop()
        browser.get(page)
        out, ids, loaded = browser.execute_script(READ)
        links[page] = [urldefrag(link) for link in out if link.startswith(site.address)]
        places[page] = {"", *ids}
        found += [f"{page} loads {url}" for url in loaded if not url.startswith(site.address)]
        found += [f"{page} logs {entry['message']}" for entry in browser.get_log("browser")]
        waiting += {url for url, _ in links[page]} - {*places, *waiting}
    found += [f"{path} is missing" for path in site.missing]
    broken = {
        f"{page} leads to {url}#{place}"
        for page, out in links.items()
        for url, place in out
        if place not in places[url]
    }
    return found + sorted(broken), sorted(places)


def test_nothing_is_broken_in_a_browser(browser, built):
    """No page, place, picture, style or script is missing; none is from elsewhere; no errors."""
    with served(built) as site:
        wrong, pages = faults(browser, site, *MADE)
    assert not wrong, "\n".join(wrong)
    here = {page.removeprefix(site.address) for page in pages}
    there = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}
    assert there - here == set()  # every page can be reached


def test_formulas_are_drawn_by_the_browser(browser, built):
    """A proof's formulas are MathML elements with a size, and no dollars are left."""
    with served(built) as site:
        browser.get(site.address + "proofs/objective_perturbation.html")
        widths, text = browser.execute_script(
            "return [[...document.querySelectorAll('math')].map(m => "
            "m.getBoundingClientRect().width), document.querySelector('article').innerText]"
        )
    assert len(widths) > 100
    assert min(widths) > 0
    assert "$" not in text


def test_the_search_finds_a_page(browser, built):
    """The search works where there is no network."""
    ui = pytest.importorskip("selenium.webdriver.support.ui")
    with served(built) as site:
        browser.get(site.address + "search.html?q=threat+model")
        find = "return [...document.querySelectorAll('#search-results li a')].map(a => a.href)"
        hits = ui.WebDriverWait(browser, 20).until(lambda chrome: chrome.execute_script(find))
    assert any("threat_model.html" in hit for hit in hits)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="nowhere.html">x</a>', "nowhere.html is missing"),
        ('<a href="index.html#nowhere">x</a>', "leads to"),
        ('<img src="nowhere.png">', "nowhere.png is missing"),
        ("<script>undefined.member</script>", "logs"),
        ('<script src="http://localhost:9/x.js"></script>', "loads http://localhost:9/x.js"),
    ],
)
def test_what_is_broken_is_seen(browser, tmp_path, body, said):
    """The twin: sites with one fault each."""
    head = '<!doctype html><title>x</title><link rel="icon" href="data:,">'
    (tmp_path / "index.html").write_text(head + body)
    with served(tmp_path) as site:
        wrong, _ = faults(browser, site)
    assert any(said in sentence for sentence in wrong), wrong


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a $T(N, N +\n1)$ and $\\frac12|x|$", ""),
        ("a $T(N, N\n+ 1)$", "formula is broken off"),  # a line with + in front begins a list
        ("a $\\nosuch$", "formula not understood"),
        ("[a](nowhere.md)", "nowhere"),
    ],
)
def test_a_page_with_a_fault_is_refused(tmp_path, words, said):
    """The twin of the build without warnings."""
    (tmp_path / "index.md").write_text(f"# x\n\n{words}\n")
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser', '_mathml']\n"
        "myst_enable_extensions = ['dollarmath']\n"
        "html_math_renderer = 'mathml'\n"
    )
    heard = build(tmp_path, tmp_path / "out")
    assert (said in heard) if said else not heard


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(built, room):
    """What a module exports is described on its page."""
    text = (built / "reference" / f"{room}.html").read_text()
    for name in import_module(f"skdp.{room}").__all__:
        there = [f'id="{prefix}skdp.{room}.{name}"' in text for prefix in ("", "module-")]
        assert any(there), name
