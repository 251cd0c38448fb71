"""The page that maps the papers to the package: its names, tests and items, and some figures."""

import math
import re
from importlib import import_module
from pathlib import Path

import pytest
from scipy.integrate import quad

from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate
from skdp.noise import FlippedHuber

ROOT = Path(__file__).parents[2]
MATHEMATICS = ROOT / "docs" / "mathematics"
PAGE = (MATHEMATICS / "from_the_papers.md").read_text(encoding="utf-8")
LAST_OF = {  # of each paper: the numbered items, of sections or of the whole paper
    "Awan and Slavković": [
        *(f"Algorithm {k}" for k in range(1, 9)),
        *(f"Figure {k}" for k in range(1, 7)),
        *(f"Theorem 3.{k}" for k in (6, 11, 15, 17, 19)),
        *(f"Lemma 3.{k}" for k in (4, 5, 16, 18)),
        *(f"Definition 2.{k}" for k in (1, 2, 5, 6, 7)),
        *(f"Definition 3.{k}" for k in (1, 2, 3, 8, 9, 10, 13)),
        *(f"Proposition {k}" for k in ("2.3", "2.8", "2.9", "3.14", "3.21")),
        *(f"Example {k}" for k in ("2.10", "3.20", "3.22", "7.1")),
        *("Theorem 4.1", "Corollary 3.12", "Table 1", "Remark 5.1", "Equation 4"),
    ],
    "Vinterbo": [
        *(f"Theorem {k}" for k in (3, 4, 5, 6, 7, 9, 10)),
        *(f"Lemma {k}" for k in (1, 2, 8, *range(11, 20))),
        *(f"Definition {k}" for k in (1, 2, 3)),
        *("Corollary 1", "Figure 1", "Figure 2"),
    ],
    "Muthukrishnan": [
        *(f"Algorithm {k}" for k in (1, 2, 3)),
        *(f"Table {k}" for k in ("I", "II", "III")),
        *(f"Figure {k}" for k in range(1, 8)),
        *(f"Lemma {k}" for k in (2, 4, 5, 6, 7, 10, 11)),
        *("Theorem 3", "Theorem 8", "Proposition 1", "Definition 6", "Section VI-A"),
    ],
    "Awan and Dong": [
        *(f"Proposition {k}" for k in ("2.4", "3.1", "3.6", "4.2", "4.4", "4.7")),
        *(f"Theorem {k}" for k in ("3.3", "4.3", "4.8")),
        *(f"Example 3.{k}" for k in (4, 5, 7)),
        *(f"Definition {k}" for k in ("2.2", "3.2", "4.1")),
        *("Lemma 2.3", "Corollary 4.9", "Figure 1", "Section 4.3", "Section 4.4", "Section 4.5"),
    ],
}
KIND = re.compile(
    r"(Theorem|Lemma|Proposition|Corollar|Definition|Example|Algorithm|Figure|Table|Remark"
    r"|Equation|Section)(?:ies|y|s)? ((?:[\w.-]+(?: to |, (?=[\dI]))?)+)"
)


def items_of(cell):
    """Return what the first cell of a row names, one by one: "Lemmas 4 to 6" are three."""
    for kind, numbers in KIND.findall(cell):
        for part in numbers.split(", "):
            first, _, last = part.partition(" to ")
            head, dot, low = first.rpartition(".")
            until = int(last.rpartition(".")[2]) if last else 0
            of_range = [str(k) for k in range(int(low), until + 1)] if last else [low]
            for number in of_range:
                yield f"{kind.replace('Corollar', 'Corollary')} {head}{dot}{number}"


def rows_of(paper):
    """Return the cells of the table of a paper."""
    (section,) = [part for part in PAGE.split("\n## ") if part.startswith(paper)]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines[1:]]


@pytest.mark.parametrize("paper", LAST_OF)
def test_every_item_of_a_paper_has_a_row(paper):
    rows = rows_of(paper)
    assert all(len(row) == 5 and row[2] for row in rows)
    assert set(LAST_OF[paper]) - {item for row in rows for item in items_of(row[0])} == set()


def test_every_name_is_there_and_in_the_reference():
    """Objects of the public modules, by which the links are made."""
    names = set(re.findall(r"\{py:obj\}`~?([\w.]+)`", PAGE))
    assert len(names) > 30
    for name in names:
        module, _, last = name.rpartition(".")
        assert last in getattr(import_module(module), "__all__", [last])
        assert module != "skdp"  # the page of the folder has the name
        assert hasattr(import_module(module), last)
    assert not hasattr(import_module("skdp.noise"), "GaussianCanonical")  # a name of the past


def test_every_test_and_script_exists():
    """A test is a function of its file, or the whole file."""
    tests = set(re.findall(r"`((?:examples/)?tests/[\w/]+\.py)(?:::(\w+))?`", PAGE))
    assert len(tests) > 50
    for path, name in tests:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {name}(" in text if name else "def test_" in text, (path, name)
    scripts = set(re.findall(r"`(examples/[\w/]+\.py)`", PAGE))
    assert all((ROOT / path).is_file() for path in scripts)


def test_the_items_of_the_errata_are_there():
    """ "[errata](errata.md), item 20" names an item of the list."""
    errata = (MATHEMATICS / "errata.md").read_text(encoding="utf-8")
    numbers = {int(n) for n in re.findall(r"^(\d+)\. ", errata, re.M)}
    assert numbers == set(range(1, 23))
    asked = re.findall(r"errata\.md\), item (\d+)(?: to (\d+))?", PAGE)
    assert {int(n) for pair in asked for n in pair if n} <= numbers


def box(dim):
    """What can change where each number may move by 1."""
    return Sensitivity(LpBall(dim, p=math.inf))


def test_the_laplace_column_for_several_numbers_is_that_of_laplace_noise():
    """183.2 for five numbers at (.3, .01); K-norm noise in l_1, which is not it, has 488."""
    page = (MATHEMATICS / "which_noise_when.md").read_text(encoding="utf-8")
    table = page.split("<!-- figure: noise-several -->")[1].split("\n\n")[0]
    rows = [[float(x) for x in line.strip("| ").split("|")] for line in table.splitlines()[3:]]
    assert len(rows) == 8
    for dim, epsilon, delta, printed, *_ in rows:
        asked = {"epsilon": epsilon, "delta": delta}
        noise = calibrate("laplace", box(int(dim)), **asked)
        assert noise.variance()[0] == pytest.approx(printed, rel=1e-3)
    in_l1 = calibrate("l1", box(5), epsilon=0.3, delta=0.01)
    assert in_l1.variance()[0] == pytest.approx(488, rel=1e-3)


def test_the_table_of_steps_has_every_number_up_to_eight():
    """With the gain at seven, which powers of two do not show."""
    page = (MATHEMATICS / "papers_tables.md").read_text(encoding="utf-8")
    table = page.split("<!-- figure: papers-steps -->")[1].split("\n\n")[0]
    rows = {int(r[0]): r for r in ([float(x) for x in line.strip("| ").split("|")]
                                   for line in table.splitlines()[3:])}  # fmt: skip
    assert [*rows] == [*range(1, 9), 16, 32]
    _, own, laplace, gaussian, offset, *_ = rows[7]
    assert own / min(laplace, gaussian) == pytest.approx(0.979, abs=1e-3)
    assert offset / min(laplace, gaussian) == pytest.approx(0.879, abs=1e-3)


def test_the_quotient_of_laplace_and_logistic_scales():
    """Vinterbo's Theorem 7: from 1 to 2; and Figure 1: Laplace noise has less variance in places.

    The variances are 2 and pi^2 / 3 times the squares. Both ends are approached.
    """
    quotients = []
    for epsilon in (1e-3, 0.1, 1.0, 5.0):
        for delta in (1e-9, 1e-4, 0.1, 0.9):
            laplace, logistic = (
                calibrate(name, box(1), epsilon=epsilon, delta=delta).variance()[0]
                for name in ("laplace", "logistic")
            )
            quotients.append(math.sqrt(laplace / 2 / (logistic * 3 / math.pi**2)))
    assert 1 - 1e-9 <= min(quotients) < 1.001
    assert 1.9 < max(quotients) < 2


def test_flipped_huber_noise_is_sub_gaussian():
    """Lemma 2: E e^(sX) <= e^(s^2 gamma^2 / 2), by quadrature; a scale 5 % below gamma fails."""
    for alpha, s in ((0.1, 0.1), (0.1, 3.0), (1.0, 2.0), (4.0, 5.0)):
        law = FlippedHuber(alpha, 1.0)

        def weighted(x, law=law, s=s):
            return math.cosh(s * x) * math.exp(law.logpdf(x))

        mean = 2 * quad(weighted, 0, 40, points=[alpha, s], limit=400)[0]
        assert mean <= math.exp(s**2 / 2)
        assert alpha > 0.1 or s < 1 or mean > math.exp((0.95 * s) ** 2 / 2)
