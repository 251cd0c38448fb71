"""Figures of the pages: every table has its command, and a wrong number is found."""

import dataclasses
import re
import shlex

import numpy as np
import pytest
from scipy.stats import betabinom

from examples.figures import __main__ as command
from examples.figures import pages, samples
from examples.figures.layout import Layout, agree, differences, filled
from examples.figures.manifest import KINDS, figures, placed, records
from examples.figures.outputs import Output, outputs
from examples.figures.runs import Run

ROOT, FIGURES = pages.ROOT, figures()


# The manifest and the pages


def test_every_table_and_picture_has_a_name():
    """A table of numbers without a command behind it would be one that nobody can repeat."""
    found = [item for path in pages.pages() for item in pages.items(path)]
    without = [
        f"{item.page}:{item.line + 1}"
        for item in found
        if not item.name and (item.picture or item.table.has_figures)
    ]
    assert len(found) > 80
    assert not without


def test_the_manifest_has_the_figures_of_the_pages():
    """No more, no fewer, on the page that it says, each with a record of when it was made."""
    there = {name: item.page for name, item in placed().items()}
    assert there == {name: figure.page for name, figure in FIGURES.items()}
    assert set(records()) == set(there)


@pytest.mark.parametrize("figure", FIGURES.values(), ids=list(FIGURES))
def test_commands_exist(figure):
    """The script knows the options, and nothing but facts is composed by hand.

    A layout names headings of the page: another heading would leave its column unchecked.
    """
    table, layout = placed()[figure.name].table, figure.layout
    assert figure.kind in KINDS
    assert table or figure.kind in ("picture", "facts")
    assert figure.kind == "facts" or layout or figure.file or "{out}" in figure.command
    if layout:
        assert set(layout.headings) <= set(table.headings)
        assert layout.headings or layout.cells or layout.labels
    for text in filter(None, (figure.command, figure.fast)):
        words = shlex.split(text)
        if words[:2] == ["-m", "pytest"]:
            continue
        path = f"{words[1].replace('.', '/')}.py" if words[0] == "-m" else words[0]
        source = (ROOT / path).read_text(encoding="utf-8")
        if "report." in source:
            source += (ROOT / "examples/benchmarks/shared/report.py").read_text(encoding="utf-8")
        unknown = [w for w in words if w.startswith("--") and f'"{w}"' not in source]
        assert not unknown


def test_replications_are_figures_of_their_pages():
    """Published and own figures stand on the page that the row links, outside of this table."""
    table, compared = placed()["replications"].table, 0
    here = ROOT / "docs/figures/replications.md"
    for _, _, *cells, link, _ in table.rows:
        path = (here.parent / re.search(r"\((.*?)(#.*)?\)", link)[1]).resolve()
        lines = (here if path.is_dir() else path).read_text(encoding="utf-8").splitlines()
        text = " ".join(line for line in lines if not (line.startswith("|") and "](" in line))
        there = {pages.value_of(number) for number in pages.NUMBER.findall(text)}
        for number in pages.NUMBER.findall(" ".join(cells)):
            assert pages.value_of(number) in there, (link, number)
            compared += 1
    assert compared > 15


def test_an_unnamed_table_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "README.md"
    page.write_text("| a |\n|---|\n| 1 |\n\n<!-- figure: b -->\n![p](p.png)\n", encoding="utf-8")
    table, picture = pages.items(page)
    assert (table.name, table.table.has_figures) == (None, True)
    assert (picture.name, picture.picture) == ("b", "p.png")
    page.write_text("<!-- figure: b -->\nText.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'b' is not before a table"):
        list(pages.items(page))


# Numbers in cells


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        (".510 (.431 to .570)", [0.5164, 0.42, -0.01], ".516 (.420 to -.010)"),
        ("**0.000176**", [0.00018], "**0.000180**"),
        ("12,541", [12499.7], "12,500"),
        ("46.0 %", [46.04], "46.0 %"),
        ("-1.011", [1.2], "1.200"),
        ("+.048", [0.05], "+.050"),
        (".003", [-0.0001], ".000"),
        ("3e17", [4.2e16], "4e16"),
        (".719, auto .719", [0.8, None], ".800, auto .719"),
    ],
)
def test_numbers_get_the_form_of_those_before(text, values, expected):
    assert pages.restyled(text, values) == expected


def test_another_count_of_numbers_is_an_error():
    with pytest.raises(ValueError, match="must have 2 numbers"):
        pages.restyled(".5", [1.0, 2.0])


@pytest.mark.parametrize(
    ("shown", "value", "digits", "expected"),
    [
        (".51", 0.5149, 0, True),
        (".51", 0.5151, 0, False),
        (".3272", "0.3271", 0, False),
        (".328", "0.3271", 0, False),
        (".327", "0.3265", 0, True),  # a tie, as far as it is known
        ("18.03", "18", 4, False),  # printed as %.4g, which drops zeros: 18.00
        ("12541", "1.254e+04", 4, True),
        ("1/16", 0.0625, 0, True),
    ],
)
def test_shown_digits_decide(shown, value, digits, expected):
    assert agree(shown, value, digits) is expected


TEXT = """
A title

Errors of two laws
  epsilon  n      law     soft  soft
      0.5  10  0.1234       1     2
        1  10  0.5678       3     4
"""
PAGE = """\
| epsilon | Law | soft | soft |
|---|---|---|---|
| 1/2 | .123 | 1.0 | 2.0 |
| 1 | .568 | 3.0 | 4.0 |
"""
LAYOUT = Layout(
    table="two laws", rows=("epsilon",), headings={"Law": ["law"], "soft 2": ["soft 2"]}
)


def test_printed_tables_fill_the_page():
    """Every digit of a cell that a layout names is compared and, if it is wrong, written."""
    table, found = pages.table_at(PAGE.splitlines(), 0), outputs(TEXT, "")
    assert [output.title for output in found] == ["Errors of two laws"]
    assert differences(table, LAYOUT, found) == (4, [])
    for wrong in (".223", ".113", ".122"):
        spoilt = table.with_cell(0, 1, wrong)
        count, texts = differences(spoilt, LAYOUT, found)
        assert (count, len(texts)) == (4, 1)
        assert f"row 1 (1/2), column 'Law': the page has '{wrong}', computed: 0.1234" in texts[0]
        assert filled(spoilt, LAYOUT, found) == table
        assert pages.written(filled(spoilt, LAYOUT, found), PAGE.splitlines()) == PAGE.splitlines()


def test_pivots_and_labels():
    lines = ["| $P$ | 2 | 3 |", "|---|---|---|", "| matrix | 6.0 | 8.0 |", "| other | 1 | 1 |"]
    rows = [{"rows": 2, "Laplace": 6.0, "kind": "a"}, {"rows": 3, "Laplace": 8.2, "kind": "a"}]
    layout = Layout(where={"kind": "a"}, pivot="rows", labels={"matrix": ["Laplace"]})
    count, wrong = differences(pages.table_at(lines, 0), layout, [Output("", rows)])
    assert (count, len(wrong)) == (2, 1)


def test_headings_may_be_texts():
    """A column for each value of a field, also one that has another name on the page."""
    lines = ["| set | model, l1 | `Other` |", "|---|---|---|", "| a | .1 | |", "| b | .2 | .3 |"]
    scores = {("a", "model, l1"): 0.1, ("b", "model, l1"): 0.2, ("b", "other"): 0.4}
    rows = [{"set": s, "model": m, "score": score} for (s, m), score in scores.items()]
    layout = Layout(rows=("set",), pivot="model", cells=("score",))
    count, wrong = differences(pages.table_at(lines, 0), layout, [Output("", rows)])
    assert (count, len(wrong)) == (3, 1)
    assert "row 2 (b), column '`Other`': the page has '.3', computed: 0.4" in wrong[0]
    rows[2]["model"] = "third"
    layout = dataclasses.replace(layout, aliases={"`Other`": "third"})
    assert differences(pages.table_at(lines, 0), layout, [Output("", rows)])[0] == 3


def test_cells_may_be_texts():
    """A verdict is written and compared as it is, whatever was there."""
    lines = ["| set | verdict |", "|---|---|", "| a | tie |", "| b | .5 ahead |", "| c | tie |"]
    verdicts = {"a": "tie", "b": "behind", "c": ""}
    found = [Output("", [{"set": name, "verdict": told} for name, told in verdicts.items()])]
    layout = Layout(rows=("set",), headings={"verdict": ["verdict"]})
    table = pages.table_at(lines, 0)
    count, wrong = differences(table, layout, found)
    assert (count, len(wrong)) == (2, 1)
    assert "the page has '.5 ahead', computed: behind" in wrong[0]
    assert [row[1] for row in filled(table, layout, found).rows] == ["tie", "behind", "tie"]


# A wrong number of a page


def test_a_changed_digit_of_a_page_is_found():
    """The real command and page: K-norm noise, with one digit of one cell changed."""
    figure, item = FIGURES["proof-knorm"], placed()["proof-knorm"]
    found = command.run(figure.fast)
    assert command.compared(figure, found, item) == (len(item.table.rows[0]) - 1, [])
    right = item.table.rows[0][3]
    spoilt = item.table.with_cell(0, 3, right[:-1] + str((int(right[-1]) + 1) % 10))
    count, wrong = command.compared(figure, found, dataclasses.replace(item, table=spoilt))
    assert (count, len(wrong)) == (len(item.table.rows[0]) - 1, 1)
    assert wrong[0].startswith(f"proof-knorm ({figure.page}:")


@pytest.mark.parametrize(("place", "right"), [(1, True), (10, False), (0.1, False)])
def test_a_wrong_median_is_outside_of_its_band(place, right, monkeypatch):
    """Each stored median of skdp, ten times as large or as small."""
    figure, item = FIGURES["accuracy-simulation"], placed()["accuracy-simulation"]
    monkeypatch.setattr(samples, "_simulated", lambda: simulated(item.table))
    text = f"{pages.value_of(item.table.rows[0][1]) * place:.3g}"
    spoilt = dataclasses.replace(item, table=item.table.with_cell(0, 1, text))
    count, wrong = samples.compared(figure, spoilt)
    assert (count, len(wrong)) == (18, not right)


def simulated(table):
    """Runs whose medians are those of the page, with a spread of a half."""
    spread = np.linspace(0.5, 1.5, samples.FEW)[:, None]
    names = FIGURES["accuracy-simulation"].layout.headings
    cells = {
        h: [pages.value_of(row[k]) for row in table.rows] for k, h in enumerate(table.headings)
    }
    return {fields[0]: spread * np.array(cells[heading]) for heading, fields in names.items()}


def test_the_band_has_the_chance_of_an_alarm_that_it_promises():
    """Both tails together; simulated, too, with a promise that is large enough to be seen."""
    for few, stored, alarm in ((25, 100, 1e-4), (60, 60, 1e-3), (20, 99, 0.05)):
        r, k = samples.rank(few, stored, alarm), (stored + 1) // 2
        assert 2 * betabinom.cdf(r - 1, few, k, stored - k + 1) <= alarm
        assert 2 * betabinom.cdf(r, few, k, stored - k + 1) > alarm
    rng, r = np.random.default_rng(0), samples.rank(25, 100, 0.05)
    few = np.sort(rng.exponential(size=(4000, 25)), axis=1)
    stored = np.median(rng.exponential(size=(4000, 100)), axis=1)
    alarms = np.mean((stored < few[:, r - 1]) | (stored > few[:, -r]))
    assert alarms <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 4000)  # fails once in a million seeds
    with pytest.raises(ValueError, match="too few"):
        samples.rank(5, 100, 1e-4)


# The command


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A page with one figure, a command that counts its calls, and its folder."""
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    text = "<!-- figure: one -->\n| n | mean |\n|---|---|\n| 1 | .25 |\n| 2 | .75 |\n"
    page.write_text(text, encoding="utf-8")
    (tmp_path / "README.md").write_text("", encoding="utf-8")
    code = "open('calls','a').write('x'); print('n  mean\\n1  0.5\\n2  0.75')"
    figure = dataclasses.replace(
        FIGURES["proof-knorm"],
        name="one",
        page="docs/page.md",
        command=f'-c "{code}"',
        fast="",
        layout=Layout(rows=("n",), headings={"mean": ["mean"]}),
    )
    for module in (pages, command, command.sys.modules["examples.figures.runs"]):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr("examples.figures.runs.RESULTS", tmp_path / "results")
    monkeypatch.setattr("examples.figures.manifest.RECORDS", tmp_path / "records.json")
    (tmp_path / "records.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(command, "figures", lambda: {"one": figure})
    return tmp_path


def test_a_check_compares_and_a_run_writes(small, capsys):
    """A command is run once; its number is written, and what it was made with is recorded."""
    page, before = small / "docs" / "page.md", (small / "docs" / "page.md").read_text()
    assert command.main(["--check"]) == 1
    assert "row 1 (1), column 'mean': the page has '.25', computed: 0.5" in capsys.readouterr().out
    assert page.read_text() == before
    assert command.main([]) == 0
    assert page.read_text() == before.replace(".25", ".50")
    assert {"date", "commit", "versions", "seconds"} == set(records()["one"])
    assert command.main(["--check"]) == 0
    assert (small / "calls").read_text() == "x"
    command.main(["--again"])
    assert (small / "calls").read_text() == "xx"


def test_the_list_tells_time_and_state(small, capsys):
    assert command.main(["--list"]) == 0
    assert re.search(r"one +docs/page.md .* to run\nTo run: 1 commands", capsys.readouterr().out)
    assert not (small / "calls").exists()
    command.main([])
    command.main(["--list"])
    assert re.search(r"done at \w+\nTo run: 0 commands, about 0 minutes", capsys.readouterr().out)
    with pytest.raises(SystemExit, match="No figure has a name that begins with two"):
        command.main(["--only", "two"])


def test_a_command_that_fails_is_not_kept(small):
    from examples.figures import runs

    with pytest.raises(SystemExit, match="ended with 3"):
        runs.run("-c 'raise SystemExit(3)'")
    assert runs.kept("-c 'raise SystemExit(3)'") is None
    assert isinstance(runs.run("-c pass"), Run)
