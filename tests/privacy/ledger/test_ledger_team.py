"""Ledgers of teams: what entries say, parts with ceilings of their own, and the attacks on both."""

import copy
import getpass
import multiprocessing
import os
import pickle
import re
import shutil
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_worst import fits
from programs import output_of
from sklearn.base import clone

from skdp import Domain, DPLogisticRegression, PrivateSearchCV, estimate_domain
from skdp.model_selection import private_score
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, LedgerLost
from skdp.privacy.ledger_rules import RULES

TENTH = Guarantee(0.1)
DOMAIN = Domain({"a": (-1.0, 1.0)}, target=["no", "yes"])
TABLE = pd.DataFrame({"a": np.linspace(-1, 1, 200), "y": ["no", "yes"] * 100})
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def model(ledger, **given):
    return DPLogisticRegression(domain=DOMAIN, epsilon=0.1, ledger=ledger, **given)


def removed(epsilon, delta=0.0):
    return Guarantee(epsilon, delta, neighbors="add_remove")


# What an entry says


@pytest.mark.parametrize(
    ("given", "user", "found"),
    [
        ({}, "ann", "ann"),
        ({"author": "team"}, "ann", "team"),
        ({"author": ""}, "ann", ""),
        ({}, KeyError("getpwuid(): uid not found"), ""),  # Python 3.11, in a container
        ({}, OSError("No username set in the environment"), ""),
        ({}, "J\udcf6rg", "J?rg"),  # bytes of another encoding
        ({"author": "Jörg <b>"}, "ann", "Jörg <b>"),
    ],
)
def test_the_author_is_given_or_the_user_of_the_process(given, user, found, monkeypatch):
    def getuser():
        if isinstance(user, Exception):
            raise user
        return user

    monkeypatch.setattr(getpass, "getuser", getuser)
    ledger = Ledger(1.0, **given)
    ledger.spend(TENTH)
    assert ledger.entries[0].author == found


def test_the_date_is_the_day_in_utc(monkeypatch):
    """An hour would tell how long the table was read, and so its size."""
    before = datetime.now(UTC).date()
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    ledger = Ledger(1.0)
    ledger.spend(TENTH)
    assert str(before) <= ledger.entries[0].date <= str(datetime.now(UTC).date())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", ledger.entries[0].date)


@pytest.mark.parametrize("given", ["", "visits"])
@pytest.mark.parametrize("name", ["part-0.parquet", "part-0.csv", "t\udcffble.csv", "folder", None])
def test_the_table_is_the_one_given_or_the_name_of_the_file(given, name, tmp_path):
    ledger, table = Ledger(1.0, table=given, note="May"), TABLE
    if name is not None:
        path = table = tmp_path / name
        if name == "folder":
            path.mkdir()
            path /= "0.parquet"
        (TABLE.to_csv if path.suffix == ".csv" else TABLE.to_parquet)(path, index=False)
    for own in (table, str(table)) if name else (table,):
        try:
            model(ledger).fit(own, target="y")
        except ValueError:
            pytest.skip("pyarrow reads no such names")
    usual = (name or "").replace("\udcff", "?")
    assert {entry.table for entry in ledger.entries} == {given or usual}
    assert {entry.note for entry in ledger.entries} == {"DPLogisticRegression.fit: May"}


def test_every_kind_of_charge_has_the_description_of_its_ledger():
    ledger = Ledger(9.0, author="ann", note="May", table="visits")
    X, y = TABLE[["a"]], TABLE["y"]
    fitted = model(ledger).fit(X, y)
    fitted.infer(X, y, epsilon=0.5)
    estimate_domain(X, epsilon=0.1, ledger=ledger)
    private_score(fitted, X, y, epsilon=0.1)
    PrivateSearchCV(model(ledger), {"regularization": [0.1, 1.0]}, epsilon=0.5).fit(X, y)
    clone(model(pickle.loads(pickle.dumps(ledger)))).fit(X, y)
    ledger.spend(TENTH)
    assert {(e.author, e.table) for e in ledger.entries} == {("ann", "visits")}
    notes = [entry.note for entry in ledger.entries]
    assert notes[-1] == "May"
    assert all(note.endswith(": May") for note in notes[:-1])
    assert len(notes) == 7


def test_the_description_makes_no_other_ledger(tmp_path):
    one, other = (Ledger(1.0, path=tmp_path / "l", note=note) for note in ("May", "June"))
    one.spend(TENTH)
    other.spend(TENTH)
    assert one == other
    assert [entry.note for entry in one.entries] == ["May", "June"]


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_entries_of_neighbouring_tables_are_the_same(neighbors):
    """Nothing about the records is in an entry."""
    other = TABLE.assign(a=-1.0) if neighbors == "replace_one" else TABLE.iloc[:-1]
    pair = []
    for table in (TABLE, other):
        ledger = Ledger(1.0)
        model(ledger, neighbors=neighbors, n_public=200).fit(table, target="y")
        pair.append(ledger.entries)
    assert pair[0] == pair[1]


@pytest.mark.parametrize("name", ["author", "note", "table"])
@pytest.mark.parametrize("value", [3, b"ann", ["ann"], np.array(["private"])])
def test_descriptions_are_strings(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a string") as error:
        Ledger(1.0, **{name: value})
    assert "private" not in str(error.value)


# Files


def test_a_database_of_somebody_else_gets_no_tables(tmp_path):
    with sqlite3.connect(tmp_path / "other") as database:
        database.execute("CREATE TABLE people (name TEXT)")
    content = (tmp_path / "other").read_bytes()
    with pytest.raises(ValueError, match="path must be a ledger's file"):
        Ledger(1.0, path=tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == content


@pytest.mark.parametrize("column", ["author", "date", "source", "part"])
def test_a_description_that_is_no_text_is_refused(column, tmp_path):
    ledger = Ledger(1.0, path=tmp_path / "ledger")
    ledger.spend(TENTH)
    with sqlite3.connect(tmp_path / "ledger") as database:
        database.execute("DROP TRIGGER entry_UPDATE")
        database.execute(f"UPDATE entry SET {column} = x'00'")
    with pytest.raises(LedgerLost, match="a row is not a spend"):
        Ledger(1.0, path=tmp_path / "ledger").entries  # noqa: B018


# Parts


def test_a_charge_to_a_part_counts_in_the_ledger_and_must_fit_both():
    ledger = Ledger(1.0)
    one, two = ledger.part("2025", epsilon=0.5), ledger.part("2026", epsilon=0.8)
    one.spend(Guarantee(0.4), note="first")
    with pytest.raises(BudgetExceeded, match=r"in the part '2025'.*left epsilon=0\.1.*=0\.5, del"):
        one.spend(Guarantee(0.2))
    assert (one.epsilon, one.spent.epsilon, one.remaining.epsilon) == (0.5, 0.4, 0.1)
    assert (ledger.spent.epsilon, two.spent.epsilon, two.remaining.epsilon) == (0.4, 0.0, 0.6)
    # The ceilings of the parts add up to 1.3, and the ledger to 1.
    with pytest.raises(BudgetExceeded, match=r"in the ledger: .*left epsilon=0\.6.*=1\.0, del"):
        two.spend(Guarantee(0.7))
    two.spend(Guarantee(0.6))
    ledger.spend(Guarantee(0.0))
    assert ledger.remaining.epsilon == one.remaining.epsilon == two.remaining.epsilon == 0.0
    assert [entry.part for entry in ledger.entries] == ["2025", "2026", ""]
    assert [entry.note for entry in one.entries] == ["first"]
    assert repr(one) == "Ledger(epsilon=0.5, delta=0.0; part '2025'; spent epsilon=0.4)"


KINDS = [removed(0.25), removed(0.1, 1e-6), removed(0.4)]
# Which of the ledgers of their own each handle of the test below is charged to.
PLACES = {"all": [0], "a": [0, 1], "a/b": [0, 1, 2], "c": [0, 3]}
CEILINGS = [(1.0, 1e-5), (0.6, 1e-6), (0.5, 1e-6), (5.0, 1e-5)]


@settings(max_examples=20, deadline=None)
@given(
    composition=st.sampled_from([*RULES]),
    steps=st.lists(st.tuples(st.sampled_from([*PLACES]), st.integers(0, 2)), max_size=7),
)
def test_a_part_is_charged_like_a_ledger_of_its_own(composition, steps):
    """And like all those around it; the amount left fits."""
    single = [Ledger(*ceiling, composition=composition) for ceiling in CEILINGS]
    ledger = Ledger(*CEILINGS[0], composition=composition)
    handles = {"all": ledger, "a": ledger.part("a", *CEILINGS[1])}
    handles |= {"a/b": handles["a"].part("b", *CEILINGS[2]), "c": ledger.part("c", *CEILINGS[3])}
    for where, kind in steps:
        own = [single[k] for k in PLACES[where]]
        could = all(copy_fits(one, KINDS[kind]) for one in own)
        assert fits(handles[where], KINDS[kind]) == could
        if could:
            assert all(fits(one, KINDS[kind]) for one in own)
    for where, handle in handles.items():
        own = [single[k] for k in PLACES[where]]
        assert handle.spent == own[-1].spent
        assert handle.remaining.epsilon == min(one.remaining.epsilon for one in own)
        assert handle.fits_left(0.1) == min(one.fits_left(0.1) for one in own)
    left = handles["a/b"].remaining
    if left.epsilon > 0:
        handles["a/b"].spend(removed(left.epsilon, left.delta))


def copy_fits(ledger, guarantee):
    """Return whether a charge would fit, without charging it."""
    other = Ledger(ledger.epsilon, ledger.delta, composition=ledger.composition)
    for entry in ledger.entries:
        other.spend(removed(entry.epsilon, entry.delta))
    return fits(other, guarantee)


@pytest.mark.parametrize("composition", RULES)
def test_groups_of_a_part_share_its_ceiling_and_that_of_the_ledger(composition):
    ledger = Ledger(1.0, composition=composition)
    part = ledger.part("2026", epsilon=0.5)
    north, south = part.parallel("region", ["north", "south"]).values()
    whole = ledger.parallel("region", ["north", "south"])
    north.spend(removed(0.4))
    south.spend(removed(0.3))
    whole["south"].spend(removed(0.4))
    assert (part.spent.epsilon, ledger.spent.epsilon) == (0.4, 0.7)
    assert (north.remaining.epsilon, south.remaining.epsilon) == (0.1, 0.2)
    with pytest.raises(BudgetExceeded, match="in the part '2026'"):
        south.spend(removed(0.25))
    part.spend(removed(0.1))  # counts for both groups of the part and of the ledger
    assert (north.remaining.epsilon, south.remaining.epsilon) == (0.0, 0.1)
    assert "part '2026'; region='south'" in repr(south)
    for other, rule in ((("region", ["east"]), "groups"), (("home", ["north"]), "groups by")):
        with pytest.raises(ValueError, match=f"guarantee must be for (the )?{rule}"):
            ledger.part("2027", epsilon=0.1).parallel(*other)[other[1][0]].spend(removed(0.1))
    with pytest.raises(ValueError, match=r"that of all records.*ledger\.part\(\.\.\.\)\.parallel"):
        whole["north"].part("2026", epsilon=0.5)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (("", 1.0), "name"),
        (("2026/May", 1.0), "name"),
        ((2026, 1.0), "name"),
        ((None, 1.0), "name"),
        (("2026", 0.0), "epsilon"),
        (("2026", -1.0), "epsilon"),
        (("2026", float("nan")), "epsilon"),
        (("2026", "1"), "epsilon"),
        (("2026", 1.0, 1.1), "delta"),
    ],
)
def test_wrong_parts_are_refused(wrong, name):
    with pytest.raises(ValueError, match=f"{name} must"):
        Ledger(1.0).part(*wrong)


@pytest.mark.parametrize("again", [(0.6,), (0.5, 1e-6), (float("inf"),)])
def test_a_part_has_one_ceiling_for_ever(again, tmp_path):
    """Whether it has charges or not; also in another process, and for a part of a part."""
    ledger = Ledger(1.0, 1e-5, path=tmp_path / "ledger")
    for outer in (ledger, ledger.part("2026", epsilon=1.0)):
        outer.part("May", epsilon=0.5)
        with pytest.raises(ValueError, match=r"ceiling of the part '(2026/)?May' \(epsilon=0\.5"):
            outer.part("May", *again)
    output_of(f"""
        from skdp.privacy import Ledger
        try:
            ledger = Ledger(1.0, 1e-5, path={str(tmp_path / "ledger")!r})
            ledger.part("May", float("{again[0]}"), 1e-9)
        except ValueError as error:
            assert "be the ceiling of the part 'May'" in str(error)
        else:
            raise SystemExit("a second ceiling")
    """)


@pytest.mark.parametrize(
    "name", ["2026 ", "May'; DROP TABLE part; --", "é\n<b>", "a\0b", "x" * 999]
)
def test_odd_names_of_parts_are_names(name, tmp_path):
    ledger = Ledger(1.0, path=tmp_path / "ledger")
    part = ledger.part(name, epsilon=0.5)
    part.spend(TENTH)
    assert [entry.part for entry in Ledger(1.0, path=tmp_path / "ledger").entries] == [name]
    assert ledger.part(name.strip() + "2", epsilon=0.5).entries == ()
    assert "<b>" not in ledger.to_frame().to_html()


def test_a_name_that_begins_like_another_is_another_part():
    ledger = Ledger(1.0)
    ledger.part("20", epsilon=0.5).spend(TENTH)
    assert ledger.part("2", epsilon=0.5).entries == ledger.part("202", epsilon=0.5).entries == ()


def test_a_part_without_a_ceiling_only_names_its_charges():
    ledger = Ledger(1.0, 1e-5)
    part = ledger.part("2026", epsilon=float("inf"))
    part.spend(Guarantee(0.4, 1e-6))
    assert (part.remaining.epsilon, part.remaining.delta) == (0.6, 9e-6)


def test_a_part_is_the_same_in_copies_pickles_and_other_processes(tmp_path):
    ledger = Ledger(1.0, path=tmp_path / "ledger")
    part = ledger.part("2026", epsilon=0.5)
    for same in (
        copy.deepcopy(part),
        pickle.loads(pickle.dumps(part)),
        clone(model(part)).ledger,
        Ledger(1.0, path=tmp_path / "ledger", note="other").part("2026", epsilon=0.5),
    ):
        assert same == part
        assert hash(same) == hash(part)
        same.spend(Guarantee(0.05))
    assert len({ledger, part, ledger.part("2027", epsilon=0.5), part.part("2026", 0.5)}) == 4
    output_of(f"""
        from skdp.privacy import Guarantee, Ledger
        part = Ledger(1.0, path={str(tmp_path / "ledger")!r}).part("2026", epsilon=0.5)
        part.spend(Guarantee(0.2))
    """)
    assert (part.remaining.epsilon, ledger.remaining.epsilon) == (0.1, 0.6)
    model(part).fit(TABLE, target="y")
    with pytest.raises(BudgetExceeded, match="in the part '2026'"):
        model(part).fit(TABLE, target="y")


# Attacks


def spend_until_refused(path, part, started):
    ledger = Ledger(10.0, path=path).part(part, epsilon=2.0)
    started.wait()
    with suppress(BudgetExceeded):
        while True:
            ledger.spend(Guarantee(0.1))


@forks
@pytest.mark.parametrize("parts", [["a", "a"], ["a", "b", "a"]])
def test_processes_together_never_exceed_the_ceiling_of_a_part(parts, tmp_path):
    own = multiprocessing.get_context("fork")
    started = own.Barrier(len(parts))
    path = tmp_path / "ledger"
    workers = [own.Process(target=spend_until_refused, args=(path, p, started)) for p in parts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    ledger = Ledger(10.0, path=path)
    assert {e.part for e in ledger.entries} == {*parts}
    for part in {*parts}:
        assert ledger.part(part, epsilon=2.0).spent.epsilon == 2.0
    assert ledger.spent.epsilon == 2.0 * len({*parts})


@pytest.mark.parametrize("use", ["spent", "remaining", "entries", "spend"])
def test_a_backup_that_is_older_than_a_part_is_found(use, tmp_path):
    """Otherwise the part could be made again with a higher ceiling, beside this one."""
    path = tmp_path / "ledger"
    ledger = Ledger(1.0, path=path)
    backup = path.read_bytes()
    part = ledger.part("2026", epsilon=0.5)
    path.write_bytes(backup)
    Ledger(1.0, path=path).part("2026", epsilon=0.9)
    with pytest.raises(LedgerLost, match="lacks the part '2026'"):
        part.spend(TENTH) if use == "spend" else getattr(part, use)
    assert "cannot be read" in repr(part)


@pytest.mark.parametrize("kind", ["renamed", "copied", "linked", "removed", "replaced"])
def test_files_that_move_end_or_double_a_part(kind, tmp_path):
    path, other = tmp_path / "ledger", tmp_path / "other"
    part = Ledger(1.0, path=path).part("2026", epsilon=0.5)
    part.spend(TENTH)
    if kind == "copied":  # a second budget: no program can see it
        shutil.copy(path, other)
        assert Ledger(1.0, path=other).part("2026", epsilon=0.5).remaining == part.remaining
        return
    if kind == "linked":
        os.link(path, other)
        with pytest.raises(ValueError, match="be the only name"):
            part.spend(TENTH)
        return
    os.rename(path, other)
    if kind == "removed":
        other.unlink()
    if kind == "replaced":
        Ledger(1.0, path=path).part("2026", epsilon=0.5)
    with pytest.raises(LedgerLost):
        part.spend(TENTH)
    if kind == "renamed":
        assert Ledger(1.0, path=other).part("2026", epsilon=0.5).remaining.epsilon == 0.4


@pytest.mark.parametrize("change", ["UPDATE part SET epsilon = 9", "DELETE FROM part"])
def test_ceilings_of_parts_are_append_only(change, tmp_path):
    Ledger(1.0, path=tmp_path / "ledger").part("2026", epsilon=0.5)
    with (
        sqlite3.connect(tmp_path / "ledger") as database,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        database.execute(change)


# The table


def test_the_table_of_entries_adds_up_by_year_author_and_part(monkeypatch):
    ledger = Ledger(2.0, author="ann", table="visits")
    for year in (2025, 2026):

        class Clock(datetime):
            @classmethod
            def now(cls, tz=None, year=year):
                return datetime(year, 3, 31, 23, tzinfo=tz)

        monkeypatch.setattr("skdp.privacy.ledger.datetime", Clock)
        part = ledger.part(str(year), epsilon=1.0)
        part.spend(removed(0.25), note="histogram")
        part.parallel("region", ["north"])["north"].spend(removed(0.125))
    frame = ledger.to_frame()
    columns = ["date", "author", "table", "part", "group", "note", "epsilon", "delta"]
    assert list(frame.columns) == columns
    assert frame.groupby(frame.date.str[:4]).epsilon.sum().to_dict() == {
        "2025": 0.375,
        "2026": 0.375,
    }
    assert frame.groupby("part").epsilon.sum().to_dict() == {"2025": 0.375, "2026": 0.375}
    assert frame.group.tolist() == ["", "north"] * 2
    assert part.to_frame().date.unique().tolist() == ["2026-03-31"]
    assert list(Ledger(1.0).to_frame().columns) == columns


def test_html_shows_no_markup_of_an_entry():
    ledger = Ledger(1.0, author="<script>", note="<b>", table="<i>")
    ledger.part("<u>", epsilon=0.5).spend(TENTH)
    html = ledger.to_frame().to_html()
    assert not re.search("<(script|b|i|u)>", html)
    assert "&lt;script&gt;" in html
