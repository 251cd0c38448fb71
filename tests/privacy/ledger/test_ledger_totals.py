"""Running totals: those of all entries, whoever recorded them, and read once."""

import math
import os
import pickle
import sqlite3
import tempfile
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_worst import DELTA, fits, gaussian

from skdp.noise import Laplace
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, LedgerLost, ledger_file
from skdp.privacy.shift import ShiftLoss
from skdp.trusted.losses import PairLoss

LAPLACE = Guarantee(0.05, losses=((ShiftLoss(Laplace(20.0), 1.0), 1),))
SPENDS = [
    Guarantee(0.01),
    Guarantee(0.003, 1e-8),
    gaussian(0.02, 1e-7),
    gaussian(0.003),
    LAPLACE,
    Guarantee(0.02, 1e-7, losses=((PairLoss(0.01, 1e-8), 2),)),
]


def again(ledger):
    """A handle that has read nothing yet."""
    return pickle.loads(pickle.dumps(ledger))


@pytest.mark.parametrize("composition", ["adaptive", "fixed", "sums"])
@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SPENDS), st.integers(0, 2)), max_size=10))
def test_running_totals_are_those_of_a_handle_that_reads_all_at_once(composition, plan):
    """Three handles spend in any order from one ledger; a fresh handle each from the other."""
    ledger, other = (Ledger(0.1, DELTA, composition=composition) for _ in range(2))
    handles = [again(ledger) for _ in range(3)]
    for spend, which in plan:
        assert fits(handles[which], spend) == fits(again(other), spend)
    for handle in handles:
        assert handle.entries == again(other).entries
        assert (handle.spent, handle.remaining) == (again(other).spent, again(other).remaining)


def test_sums_are_exact_after_many_spends_of_very_unlike_sizes():
    ledger = Ledger(1.0, 1e-3, composition="sums")
    sizes = [10.0**-k for k in range(2, 40)] * 5
    for size in sizes:
        ledger.spend(Guarantee(size, size / 1e3))
    total = sum(Fraction(repr(size)) for size in sizes)
    left = Fraction(repr(ledger.remaining.epsilon))
    assert total <= Fraction(repr(ledger.spent.epsilon)) <= total * (1 + Fraction(1, 10**15))
    assert 1 - total - Fraction(1, 10**15) <= left <= 1 - total
    assert not fits(ledger, Guarantee(math.nextafter(ledger.remaining.epsilon, 1.0)))
    ledger.spend(Guarantee(ledger.remaining.epsilon))


@pytest.mark.parametrize("composition", ["adaptive", "fixed", "sums"])
def test_a_spend_reads_only_what_is_new(composition, monkeypatch):
    """Its own last row, and those of others, whatever the number of entries."""
    ledger, read, entries_after = (
        Ledger(9.0, DELTA, composition=composition),
        [],
        ledger_file.entries_after,
    )
    for _ in range(50):
        again(ledger).spend(Guarantee(0.01))

    def counted(database, number):
        found = entries_after(database, number)
        read.append(len(found[0]))
        return found

    monkeypatch.setattr(ledger_file, "entries_after", counted)
    for _ in range(4):
        ledger.spend(Guarantee(0.01))
    again(ledger).spend(Guarantee(0.01))
    ledger.spend(Guarantee(0.01))
    assert read == [50, 1, 1, 1, 54, 2]


def change(ledger, statement, table="entry"):
    """Change rows of a file, as its owner can who first removes the triggers."""
    database = sqlite3.connect(ledger.path)
    for verb in ("UPDATE", "DELETE"):
        database.execute(f"DROP TRIGGER {table}_{verb}")
    database.execute(statement)
    database.commit()
    database.close()


def test_a_file_without_its_terms_gives_no_budget():
    ledger = Ledger(1.0)
    other = again(ledger)
    change(ledger, "DELETE FROM ceiling", table="ceiling")
    with pytest.raises(LedgerLost, match="states no ceiling"):
        other.spend(LAPLACE)
    with pytest.raises(ValueError, match="path must be a ledger's file or be free"):
        Ledger(1.0, path=ledger.path)


def test_rows_changed_behind_a_handle_count_as_it_read_them():
    """A handle that comes later knows the file only."""
    ledger = Ledger(1.0)
    for _ in range(2):
        ledger.spend(Guarantee(0.4))
    seen = ledger.entries
    change(ledger, "UPDATE entry SET epsilon = 0.1")
    assert ledger.entries == seen
    assert (ledger.spent.epsilon, ledger.remaining.epsilon) == (0.8, 0.2)
    with pytest.raises(BudgetExceeded, match=r"left epsilon=0\.2"):
        ledger.spend(Guarantee(0.3))
    assert again(ledger).remaining.epsilon == 0.8


def test_rows_deleted_behind_a_handle_make_it_lost():
    """For a pickle, too, if it was made when they were known; an older one knows the file only."""
    ledger = Ledger(1.0)
    before = pickle.dumps(ledger)
    ledger.spend(Guarantee(0.4))
    change(ledger, "DELETE FROM entry")
    for handle in (ledger, again(ledger)):
        with pytest.raises(LedgerLost, match="recorded spends are gone"):
            handle.spend(LAPLACE)
    assert pickle.loads(before).remaining.epsilon == 1.0


def test_a_row_changed_before_it_is_read_counts_as_it_is():
    """Also one that this handle recorded itself."""
    ledger = Ledger(1.0)
    ledger.spend(Guarantee(0.4))
    change(ledger, "UPDATE entry SET epsilon = 0.7")
    assert ledger.remaining.epsilon == 0.3


def test_a_thread_that_reads_an_earlier_state_does_not_change_what_a_spend_counts(monkeypatch):
    """Another thread resets what the handle has seen while a spend is checked."""
    ledger = Ledger(1.0)
    early, check = ledger._seen, Ledger._check_fits
    ledger.spend(Guarantee(0.6))

    def late(self, entry, seen):
        self._seen = early
        check(self, entry, seen)

    monkeypatch.setattr(Ledger, "_check_fits", late)
    assert not fits(ledger, Guarantee(0.6))
    assert fits(ledger, Guarantee(0.4))
    assert ledger.spent.epsilon == 1.0


def test_a_place_for_temporary_files_that_was_chosen_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ledger = Ledger(1.0)
    assert os.path.dirname(os.path.dirname(ledger.path)) == os.path.realpath(tmp_path)
