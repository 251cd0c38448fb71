"""The documentation site: no warning when it is built, and nothing broken in a real browser."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from docs_browser import FOREIGN, LONG, axe_source, chromium, is_page, served, walk

pytestmark = pytest.mark.slow("opens the built site in a browser")

ROOT = Path(__file__).parents[2]
# Pages of Sphinx's own that a form leads to, or none of ours.
MADE = ("search.html", "_modules/index.html")
BUILDERS = ("sphinx", "numpydoc", "myst_nb", "sphinx_copybutton", "sphinxext.opengraph", "furo")
# Pages of which axe-core looks at everything, also in dark colours: one of each kind.
WHOLE = ("index.html", "quickstart.html", "examples/index.html", "proofs/orders.html")
WHOLE += ("figures/benchmark.html",)
WHOLE += ("examples/01_first_model.html", "reference/rows.html", "_modules/skdp/rows/memory.html")
# A button of scikit-learn's diagram that is not where its own script looks for it.
KNOWN = "Expected copy-paste icon is missing"


@pytest.fixture(scope="module")
def browser():
    """Return a browser, which is one for all tests."""
    with chromium() as opened:
        yield opened


def build(source, out):
    """Build a site as `make docs` does; return what makes it fail."""
    if any(find_spec(name) is None for name in BUILDERS):
        pytest.skip("the group `docs` is not installed")
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


def hidden(page):
    """Return what axe-core does not look at on a page, or None where it does not look at all."""
    if axe_source() is None:
        return None
    if page in WHOLE:
        return FOREIGN
    return None if page.startswith("_modules") else FOREIGN + LONG  # those are one of a kind


def faults(site, seen):
    """Return what is wrong with links, files and scripts, one sentence each."""
    found = [f"{path} is missing" for path in site.missing]
    for url, page in seen.items():
        found += [f"{url} loads {u}" for u in page.loaded if not u.startswith(site.address)]
        found += [f"{url} logs {words}" for words in page.logs if KNOWN not in words]
        found += [
            f"{url} leads to {to}#{place}"
            for to, place in page.links
            if to in seen and place not in seen[to].places
        ]
    return found


@pytest.fixture(scope="module")
def walked(browser, built):
    """Return the site, and what was seen of each page: each is loaded once for all tests."""
    with served(built) as site:
        yield site, walk(browser, site, ("index.html", *MADE), hidden)


def test_nothing_is_broken_in_a_browser(walked, built):
    """No page, place, picture, style or script is missing; none is from elsewhere; no errors."""
    site, seen = walked
    wrong = faults(site, seen)
    assert not wrong, "\n".join(wrong)
    here = {page.removeprefix(site.address) for page in seen}
    there = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}
    assert there - here == set()  # every page can be reached


def test_files_to_download_are_there(walked, built):
    """Links to notebooks, scripts and tables."""
    site, seen = walked
    links = {url for page in seen.values() for url, _ in page.links}
    files = {u.removeprefix(site.address) for u in links if u.startswith(site.address)}
    files = {file for file in files if not is_page(file)}
    assert {Path(file).suffix for file in files} >= {".ipynb", ".py", ".csv"}
    assert [file for file in files if not (built / file).is_file()] == []


def test_pages_fit_a_small_window(walked):
    """At 400 pixels nothing is cut off: what is wider has a box that scrolls."""
    wrong = [f"{url}: {words}" for url, page in walked[1].items() for words in page.narrow]
    assert not wrong, "\n".join(wrong)


def test_pages_have_no_barriers(walked):
    """The rules of axe-core, with contrasts in light and in dark colours."""
    if axe_source() is None:
        pytest.skip("axe-core is not installed: `make docs` does it")
    wrong = [f"{url}: {words}" for url, page in walked[1].items() for words in page.barriers]
    assert not wrong, "\n".join(wrong)


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


def test_the_gallery_shows_every_example(built):
    """A card for each notebook, with its picture if it has one, and a line for other scripts."""
    text = (built / "examples" / "index.html").read_text()
    cards = text.split('<div class="card')[1:]
    notebooks = sorted((ROOT / "examples").glob("*.ipynb"))
    for card, path in zip(cards, notebooks, strict=True):
        drawn = "image/png" in path.read_text(encoding="utf-8")
        assert (f"_images/{path.stem}.png" if drawn else "_images/icon.svg") in card
        assert f'href="{path.stem}.html"' in card
    scripts = {path.stem for path in (ROOT / "examples").glob("[a-z]*.py")} - {"notebooks"}
    assert {name for name in scripts if f"/{name}.py" in cards[-1]} == scripts


def test_figures_can_be_sorted_and_selected(browser, built):
    """The page of the benchmark: best methods first, the other way round, and another set."""
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait

    def texts(row):
        cells = "map(r => [...r.cells].map(c => c.textContent))"
        rows = f"[...document.querySelectorAll('.sortable {row}')]"
        return browser.execute_script(f"return {rows}.{cells}")

    with served(built) as site:
        browser.get(site.address + "figures/benchmark.html")
        wait(browser, 10).until(lambda _: texts("tbody tr"))
        name, median = map(texts("thead tr")[0].index, ("set", "median"))
        assert {line[name] for line in texts("tbody tr")} == {"adult"}
        medians = [float(line[median]) for line in texts("tbody tr")]
        assert medians == sorted(medians, reverse=True) != sorted(medians)
        browser.find_elements("css selector", ".sortable th button")[median].send_keys("\n")
        assert [float(line[median]) for line in texts("tbody tr")] == sorted(medians)
        field = browser.find_elements("css selector", ".sortable input")[name]
        field.clear()
        field.send_keys("mushroom")
        assert {line[name] for line in texts("tbody tr")} == {"mushroom"}
        field.send_keys("s and more")
        assert texts("tbody tr") == []
        assert browser.find_element("css selector", ".sortable p").text == "Lines: 0"
