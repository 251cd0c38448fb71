"""There is one ledger: no copy, thread, process, fork or lost file ever gives a second budget."""

import copy
import os
import pickle
import sqlite3
import subprocess
import textwrap
from dataclasses import FrozenInstanceError

import pytest
from programs import ENV, command, output_of
from sklearn.base import BaseEstimator, clone

import skdp.privacy.ledger as ledger_module
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, LedgerLost, ledger_file

GUARANTEE = Guarantee(0.3, mechanism="laplace")


class Spender(BaseEstimator):
    """An estimator that only charges its ledger."""

    def __init__(self, ledger=None, epsilon=0.1):
        self.ledger = ledger
        self.epsilon = epsilon

    def fit(self, X, y=None):
        self.ledger.spend(Guarantee(self.epsilon), note="fit")
        return self

    def score(self, X, y=None):
        return 0.0


def try_to_spend(ledger, epsilon=0.3):
    """Return whether the spend was recorded."""
    try:
        ledger.spend(Guarantee(epsilon))
    except BudgetExceeded:
        return False
    return True


def test_spends_are_recorded_in_order():
    ledger = Ledger(1.0, 1e-5)
    ledger.spend(Guarantee(0.25, 1e-6, mechanism="gaussian"), note="first")
    ledger.spend(Guarantee(0.5, void_because=("seeded",)))
    first, second = ledger.entries
    assert (first.epsilon, first.delta, first.neighbors) == (0.25, 1e-6, "replace_one")
    assert (first.mechanism, first.note, first.holds) == ("gaussian", "first", True)
    assert (second.epsilon, second.note, second.holds) == (0.5, "", False)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (0.75, 1e-6)
    assert (ledger.remaining.epsilon, ledger.remaining.delta) == (0.25, 9e-6)
    assert (ledger.epsilon, ledger.delta) == (1.0, 1e-5)
    with pytest.raises(FrozenInstanceError):
        first.epsilon = 0.0


def test_repr_shows_what_was_spent():
    ledger = Ledger(1.0)
    ledger.spend(GUARANTEE)
    assert repr(ledger) == "Ledger(epsilon=1.0, delta=0.0; spent epsilon=0.3)"
    ledger = Ledger(1.0, 1e-5)
    ledger.spend(Guarantee(0.3, 1e-6))
    assert repr(ledger) == "Ledger(epsilon=1.0, delta=1e-05; spent epsilon=0.3, delta=1e-06)"


@pytest.mark.parametrize(
    "asked",
    [Guarantee(0.71), Guarantee(0.1, 2e-5), Guarantee(1000.0)],
    ids=["epsilon", "delta", "all"],
)
def test_a_refusal_leaves_the_ledger_as_it_was(asked):
    ledger = Ledger(1.0, 1e-5)
    ledger.spend(GUARANTEE)
    before = ledger.entries
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.spend(asked)
    assert ledger.entries == before
    message = str(refusal.value)
    assert f"asks for epsilon={asked.epsilon}, delta={asked.delta}" in message
    assert "spent so far epsilon=0.3, delta=0.0" in message
    assert "left epsilon=0.7, delta=1e-05 of epsilon=1.0, delta=1e-05" in message
    assert "Ask for at most what is left" in message
    assert str(pickle.loads(pickle.dumps(refusal.value))) == message


def test_ten_tenths_fill_one_and_an_eleventh_never_fits():
    """In floats the ten tenths sum to less than 1, and three to more than 0.3."""
    ledger = Ledger(1.0, 1e-5)
    assert sum([0.1] * 10) != 1.0
    for _ in range(10):
        ledger.spend(Guarantee(0.1, 1e-6))
    assert (ledger.remaining.epsilon, ledger.remaining.delta) == (0.0, 0.0)
    assert not try_to_spend(ledger, 5e-324)
    assert try_to_spend(ledger, 0.0)
    third = Ledger(0.3)
    assert [try_to_spend(third, 0.1) for _ in range(4)] == [True, True, True, False]


def test_sums_over_the_whole_range_of_floats_are_exact():
    """A spend too small to move the sum of floats is still counted."""
    ledger = Ledger(1.0)
    ledger.spend(Guarantee(1e-300))
    assert not try_to_spend(ledger, 1.0)
    assert ledger.remaining.epsilon < 1.0
    huge = Ledger(1e308)
    huge.spend(Guarantee(5e-324))
    assert not try_to_spend(huge, 1e308)


def test_the_first_spend_fixes_the_neighbours():
    ledger = Ledger(1.0)
    ledger.spend(Guarantee(0.1, neighbors="add_remove"))
    with pytest.raises(ValueError, match=r"'add_remove'.*got 'replace_one'.*second ledger"):
        ledger.spend(Guarantee(0.1))
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ((0.0,), "epsilon"),
        ((float("nan"),), "epsilon"),
        ((1.0, -0.1), "delta"),
        ((1.0, 1.1), "delta"),
    ],
)
def test_wrong_ceilings_are_refused(wrong, name):
    with pytest.raises(ValueError, match=f"{name} must"):
        Ledger(*wrong)


def test_only_guarantees_are_spent():
    ledger = Ledger(1.0)
    with pytest.raises(ValueError, match="guarantee must be a Guarantee"):
        ledger.spend(0.1)
    with pytest.raises(ValueError, match="note must be a string"):
        ledger.spend(GUARANTEE, note=3)
    assert ledger.entries == ()


def test_copies_are_the_ledger_itself():
    ledger = Ledger(1.0)
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy({"ledger": ledger})["ledger"] is ledger
    assert clone(Spender(ledger)).ledger is ledger


def test_a_pickle_is_a_handle_on_the_same_file():
    ledger = Ledger(0.5)
    other = pickle.loads(pickle.dumps(ledger))
    assert other is not ledger
    assert other == ledger
    assert hash(other) == hash(ledger)
    assert other != Ledger(0.5)
    assert ledger != "ledger"
    other.spend(GUARANTEE)
    assert not try_to_spend(ledger)
    assert ledger.entries == other.entries


def test_processes_and_threads_together_never_overspend():
    """Two processes of four threads each, all let go at one moment."""
    ledger = Ledger(1.0)
    start = "import sys, pickle, joblib; sys.stdin.readline();"
    spend = """
        from skdp.privacy import Guarantee, BudgetExceeded
        ledger = pickle.loads(bytes.fromhex(sys.argv[1]))
        def spend():
            try:
                ledger.spend(Guarantee(0.3))
            except BudgetExceeded:
                return 0
            return 1
        won = joblib.Parallel(n_jobs=4, prefer="threads")(joblib.delayed(spend)() for _ in range(4))
        print(sum(won))
    """
    program = start + textwrap.dedent(spend)
    started, pipe = command(program, pickle.dumps(ledger).hex()), subprocess.PIPE
    workers = [
        subprocess.Popen(started, stdin=pipe, stdout=pipe, text=True, env=ENV) for _ in range(2)
    ]
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    won = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert sum(won) == len(ledger.entries) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_spends_from_the_same_ledger_and_does_not_remove_it():
    """The child leaves as a program does, with its exit handlers."""
    program = """
        import os, sys
        from skdp.privacy import Guarantee, Ledger
        ledger = Ledger(1.0)
        ledger.spend(Guarantee(0.3))
        pid = os.fork()
        if pid == 0:
            ledger.spend(Guarantee(0.5))
            sys.exit()
        os.waitpid(pid, 0)
        print(os.path.exists(ledger.path), ledger.spent.epsilon)
    """
    assert output_of(program).split() == ["True", "0.8"]


def test_the_temporary_file_goes_when_its_process_ends():
    program = """
        import os
        from skdp.privacy import Guarantee, Ledger
        ledger = Ledger(1.0)
        ledger.spend(Guarantee(0.3))
        print(os.path.exists(ledger.path), ledger.path)
    """
    existed, path = output_of(program).split()
    assert existed == "True"
    assert not os.path.exists(path)
    assert not os.path.exists(os.path.dirname(path))


def test_a_path_persists_across_processes(tmp_path):
    path = tmp_path / "a ledger?#%.sqlite3"
    program = f"""
        from skdp.privacy import Guarantee, Ledger
        Ledger(1.0, path={str(path)!r}).spend(Guarantee(0.3), note="yesterday")
    """
    output_of(program)
    ledger = Ledger(1.0, path=path)
    assert [entry.note for entry in ledger.entries] == ["yesterday"]
    assert not try_to_spend(ledger, 0.8)
    assert os.listdir(tmp_path) == [path.name]


def test_another_ceiling_at_a_path_is_refused(tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(1.0, 1e-6, path=path)
    assert Ledger(1.0, 1e-6, path=str(path)) == ledger
    for wrong in ((2.0, 1e-6), (1.0, 1e-5)):
        with pytest.raises(ValueError, match=r"must be the ceiling of the ledger.*epsilon=1.0"):
            Ledger(*wrong, path=path)


@pytest.mark.parametrize("content", [b"", b"age,income\n17,0\n" * 100], ids=["empty", "text"])
def test_a_file_that_is_no_ledger_is_refused_and_kept(tmp_path, content, monkeypatch):
    """Also an empty one: it may be what is left of a ledger."""
    monkeypatch.setattr(ledger_file, "MAKING_SECONDS", 0.05)
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="path must be a ledger's file"):
        Ledger(1.0, path=path)
    assert path.read_bytes() == content


def test_two_makers_of_one_path_share_it(tmp_path, monkeypatch):
    """The one that comes second, having seen no file, must not replace the first one's."""
    path = tmp_path / "ledger"
    first = Ledger(1.0, path=path)
    first.spend(GUARANTEE)
    monkeypatch.setattr(ledger_file.os.path, "exists", lambda _: False)
    second = Ledger(1.0, path=path)
    assert second.entries == first.entries
    assert os.listdir(tmp_path) == ["ledger"]


USES = {
    "spend": lambda ledger: ledger.spend(GUARANTEE),
    "spent": lambda ledger: ledger.spent,
    "remaining": lambda ledger: ledger.remaining,
    "entries": lambda ledger: ledger.entries,
}
REMEDY = r"set_params\(ledger=.*spent before.*path="


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_lost_file_is_an_error_and_never_a_fresh_budget(use):
    """For the maker's own handle, and for one unpickled before or after the loss."""
    ledger = Ledger(1.0)
    ledger.spend(GUARANTEE)
    dumped = pickle.dumps(ledger)
    before = pickle.loads(dumped)
    os.unlink(ledger.path)
    for handle in (ledger, before, pickle.loads(dumped)):
        with pytest.raises(LedgerLost, match=f"cannot be used.*{REMEDY}"):
            use(handle)
    assert not os.path.exists(ledger.path)


def test_unpickling_does_not_touch_the_file(monkeypatch):
    dumped = pickle.dumps(Ledger(1.0))
    monkeypatch.setattr(ledger_file, "sqlite3", None)
    assert pickle.loads(dumped).epsilon == 1.0


def test_a_lost_ledger_can_be_shown_compared_copied_and_pickled():
    """All that a model does with its parameters without fitting."""
    ledger = Ledger(1.0)
    os.unlink(ledger.path)
    lost = pickle.loads(pickle.dumps(ledger))
    assert lost == ledger
    assert hash(lost) == hash(ledger)
    assert lost != Ledger(1.0)
    assert copy.deepcopy(lost) is lost
    assert clone(Spender(lost)).ledger is lost
    assert (lost.epsilon, lost.delta, lost.path) == (1.0, 0.0, ledger.path)
    assert repr(lost) == "Ledger(epsilon=1.0, delta=0.0; cannot be read)"
    assert "cannot be read" in repr(Spender(lost))


def test_a_ledger_in_the_place_of_another_is_not_taken_for_it(tmp_path):
    """Neither by a handle from before nor by one unpickled afterwards."""
    ledger = Ledger(1.0, path=tmp_path / "ledger")
    dumped = pickle.dumps(ledger)
    os.unlink(ledger.path)
    new = Ledger(1.0, path=tmp_path / "ledger")
    for handle in (ledger, pickle.loads(dumped)):
        assert handle != new
        for use in USES.values():
            with pytest.raises(LedgerLost, match=f"another ledger.*{REMEDY}"):
                use(handle)
    assert new.entries == ()


@pytest.mark.skipif(os.name != "posix", reason="the path must be of another system")
def test_a_ledger_of_another_operating_system_is_lost():
    """Its path is no absolute one here."""
    _, (_, *facts) = Ledger(1.0).__reduce__()
    ledger = ledger_module._reopen("C:\\Temp\\ledger", *facts)
    assert "cannot be read" in repr(ledger)
    with pytest.raises(LedgerLost, match=f"another operating system.*{REMEDY}"):
        ledger.spend(GUARANTEE)


def test_a_model_outlives_its_temporary_ledger(tmp_path):
    """It loads in a later process and predicts; to fit again it wants a new ledger."""
    path = tmp_path / "model.pickle"
    program = f"""
        import pickle
        from skdp import DPLogisticRegression, Ledger
        model = DPLogisticRegression(classes=[0, 1], ledger=Ledger(1.0))
        model.fit([[-1.0], [1.0]], [0, 1])
        with open({str(path)!r}, "wb") as file:
            pickle.dump(model, file)
    """
    output_of(program)
    X, y = [[-1.0], [1.0]], [0, 1]
    model = pickle.loads(path.read_bytes())
    assert set(model.predict(X)) <= {0, 1}
    assert "cannot be read" in repr(model)
    with pytest.raises(LedgerLost, match=REMEDY) as refusal:
        clone(model).fit(X, y)
    assert refusal.value.__notes__ == ["No budget was spent and no noise was drawn."]
    model.set_params(ledger=Ledger(1.0)).fit(X, y)
    assert model.ledger.spent.epsilon == 1.0


@pytest.mark.parametrize("table", ["entry", "ceiling"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET epsilon = 0"])
def test_the_file_is_append_only(table, statement):
    ledger = Ledger(1.0)
    ledger.spend(GUARANTEE)
    database = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute(statement.format(table))
    database.close()
    assert ledger.spent.epsilon == 0.3


def test_a_busy_ledger_times_out_without_recording(monkeypatch):
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.05)
    ledger = Ledger(1.0)
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(TimeoutError, match="nothing was recorded"):
        ledger.spend(GUARANTEE)
    holder.execute("ROLLBACK")
    holder.close()
    assert ledger.entries == ()


def test_a_spend_that_is_interrupted_leaves_the_ledger_free(monkeypatch):
    """The lock goes with the transaction, and nothing was recorded."""
    ledger = Ledger(1.0)

    def breaks(self, entry, entries):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "_check_fits", breaks)
        with pytest.raises(KeyboardInterrupt):
            ledger.spend(GUARANTEE)
    ledger.spend(GUARANTEE)
    assert len(ledger.entries) == 1
