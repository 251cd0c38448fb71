"""The file of a ledger: its names, backups, forks, rights and wrong content lose no spend."""

import math
import multiprocessing
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import subprocess
import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from programs import ENV, command

from examples.benchmarks.attacks import ledger_kills
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, LedgerLost, ledger_file

ONE = Guarantee(1.0)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
SECOND_NAME = r"path must be the only name of the ledger's file.*hard links.*mount the folder"


# A second name


def test_a_file_with_a_second_name_is_refused_until_it_has_one(tmp_path):
    """By a handle from before, by a new one and by one that was unpickled; nothing is recorded."""
    ledger = Ledger(10.0, path=tmp_path / "ledger")
    ledger.spend(ONE)
    other = tmp_path / "elsewhere"
    os.link(ledger.path, other)
    for use in (
        lambda: ledger.spend(ONE),
        lambda: pickle.loads(pickle.dumps(ledger)).remaining,
        lambda: Ledger(10.0, path=other),
    ):
        with pytest.raises(ValueError, match=SECOND_NAME):
            use()
    assert "cannot be read" in repr(ledger)
    os.unlink(other)
    assert ledger.spent.epsilon == 1.0


def killed_inside_a_spend(ledger):
    """Let a child write a part of a spend to the file and leave its journal behind."""
    child = os.fork()
    if child == 0:
        with ledger._transaction("BEGIN IMMEDIATE") as database:
            database.execute("PRAGMA cache_size = 1")
            for number in range(10**6, 10**6 + 100):
                row = (number, 1.0, 0.0, "replace_one", "", "x" * 2000, 1, "row", *[""] * 8)
                database.execute(f"INSERT INTO entry VALUES ({'?, ' * 15}?)", row)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.path.getsize(ledger.path + "-journal") > 0


def acknowledged_beside_a_journal(folder):
    """Return the spends that are acknowledged, and those in the file, of a file with two names."""
    ledger, other = Ledger(10.0, path=folder / "ledger"), folder / "elsewhere"
    ledger.spend(ONE)
    killed_inside_a_spend(ledger)
    os.link(ledger.path, other)
    acknowledged = 1
    for path in (other, ledger.path, other):
        try:
            Ledger(10.0, path=path).spend(ONE)
        except ValueError:
            continue
        acknowledged += 1
    os.unlink(other)
    return acknowledged, len(ledger.entries)


@forks
def test_a_journal_of_one_name_undoes_no_spend_of_another(tmp_path):
    assert acknowledged_beside_a_journal(tmp_path) == (1, 1)


@forks
def test_a_journal_that_was_left_behind_undoes_no_spend_of_a_new_ledger(tmp_path):
    """The file of a killed writer was removed, and its journal was forgotten."""
    ledger = Ledger(10.0, path=tmp_path / "ledger")
    for _ in range(30):
        ledger.spend(Guarantee(0.1), note="x" * 1000)
    killed_inside_a_spend(ledger)
    os.unlink(ledger.path)
    new = Ledger(10.0, path=ledger.path)
    new.spend(ONE)
    assert [entry.epsilon for entry in Ledger(10.0, path=ledger.path).entries] == [1.0]


@forks
def test_without_the_check_of_names_a_journal_undoes_spends(tmp_path, monkeypatch):
    """The twin. The spends are lost, or the file is broken."""
    monkeypatch.setattr(ledger_file, "_check_names", lambda path: None)
    try:
        acknowledged, recorded = acknowledged_beside_a_journal(tmp_path)
    except LedgerLost:
        return
    assert recorded < acknowledged


def test_a_file_that_is_a_mount_point_is_refused(tmp_path):
    """In a namespace of its own; a mounted folder is no matter."""
    program = """
        import subprocess, sys
        from pathlib import Path
        from skdp.privacy import Guarantee, Ledger
        folder = Path(sys.argv[1])
        ledger = Ledger(10.0, path=folder / "a b" / "ledger")
        other, mounted = folder / "other", folder / "mounted ledger"
        other.mkdir()
        mounted.touch()
        for source, target in ((folder / "a b", other), (ledger.path, mounted)):
            subprocess.run(["mount", "--bind", source, target], check=True)
        Ledger(10.0, path=other / "ledger").spend(Guarantee(1.0))
        print(ledger.spent.epsilon)
        Ledger(10.0, path=mounted)
    """
    (tmp_path / "a b").mkdir()
    unshare = ["unshare", "--mount"]
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount")
    started = [*unshare, *command(program, str(tmp_path))]
    done = subprocess.run(started, capture_output=True, text=True, timeout=120, env=ENV)
    assert done.stdout.split() == ["1.0"]
    assert "path must be the only name of the ledger's file" in done.stderr


def test_mount_points_are_found_by_their_escaped_names(tmp_path, monkeypatch):
    """As the kernel lists them; a file below a mount point is none itself."""
    folder, listed = os.path.realpath(tmp_path), tmp_path / "mountinfo"
    place = os.path.join(folder, "a ledger\\of\tmine")
    Ledger(1.0, path=place)
    monkeypatch.setattr(ledger_file, "_MOUNTS", listed)
    ledger_file._is_mounted.cache_clear()
    escaped = place.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    listed.write_text(f"1 2 3:4 / / rw - ext4 a rw\n5 6 3:4 /x {escaped} rw - ext4 a rw\n")
    with pytest.raises(ValueError, match=SECOND_NAME):
        Ledger(1.0, path=place)
    listed.write_text(f"5 6 3:4 /x {folder} rw - ext4 a rw\n")
    ledger_file._is_mounted.cache_clear()
    Ledger(1.0, path=place)


# A restored backup


def after_a_backup(path, restore, handle):
    """Spend 6 of 10, restore what there was after 2, spend 6 elsewhere, and go on."""
    ledger = Ledger(10.0, path=path)
    ledger.spend(ONE)
    ledger.spend(ONE)
    backup = path.with_name("backup")
    shutil.copy(path, backup)
    for _ in range(4):
        ledger.spend(ONE)
    ledger = handle(ledger)
    restore(backup, path)
    other = Ledger(10.0, path=path)
    for _ in range(6):
        other.spend(ONE)
    for _ in range(4):
        ledger.spend(ONE)


RESTORES = {
    "in place": lambda backup, path: path.write_bytes(backup.read_bytes()),
    "replaced": os.replace,
}
HANDLES = {
    "same": lambda ledger: ledger,
    "pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)),
}


@pytest.mark.parametrize("restore", RESTORES.values(), ids=RESTORES)
@pytest.mark.parametrize("handle", HANDLES.values(), ids=HANDLES)
def test_a_handle_that_knows_of_lost_spends_goes_on_with_none(tmp_path, restore, handle):
    """Also where as many equal spends were recorded since. The last one it has not read back."""
    with pytest.raises(LedgerLost, match=r"recorded spends are gone.*lowered by the amount spent"):
        after_a_backup(tmp_path / "ledger", restore, handle)


def test_numbers_that_count_hide_that_spends_were_lost(tmp_path, monkeypatch):
    """The twin: the handle goes on, and 14 of 10 have been spent."""
    monkeypatch.setattr(ledger_file, "_STEP", 1)
    with pytest.raises(BudgetExceeded):
        after_a_backup(tmp_path / "ledger", RESTORES["in place"], HANDLES["same"])


def test_new_spends_have_the_number_of_a_lost_one_with_negligible_probability():
    """The bound of docs/proofs/adaptive_spending.md, against a recursion for fewer steps."""
    for most in (1, 2, 7, 64):
        hits = [Fraction(1)]
        for n in range(1, 5 * most):
            hits.append(sum(hits[max(0, n - most) :]) / most)
        assert max(hits[1:]) <= Fraction(most + 1, most) ** most / most
    assert math.e / ledger_file._STEP < 2.0**-38


def test_a_lost_last_spend_is_missed_by_all_reads(tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(10.0, path=path)
    empty = path.read_bytes()
    ledger.spend(ONE)
    path.write_bytes(empty)
    for use in (lambda: ledger.spent, lambda: ledger.entries, lambda: ledger.spend(ONE)):
        with pytest.raises(LedgerLost, match="recorded spends are gone"):
            use()
    assert Ledger(10.0, path=path).entries == ()


# Forks


@forks
def test_no_fork_happens_inside_a_transaction():
    """The child finds that the thread of its parent has left it, and spends."""
    ledger = Ledger(10.0)
    inside, left = threading.Event(), threading.Event()

    def stay():
        with ledger._transaction("BEGIN IMMEDIATE"):
            inside.set()
            time.sleep(0.2)
            left.set()

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(30)
    child = os.fork()
    if child == 0:
        os._exit(0 if left.is_set() and not spends(ledger) else 1)
    thread.join()
    assert ledger_kills.ends(child, patience=30)
    assert ledger.spent.epsilon == 1.0


def spends(ledger):
    """Spend; return the exit code of a process that does."""
    try:
        ledger.spend(ONE)
    except (ValueError, OSError):
        return 1
    return 0


@forks
def test_a_temporary_ledger_of_a_child_goes_with_it_and_no_other():
    """Of a child of multiprocessing, which leaves without the handlers of `atexit`."""
    ledger = Ledger(10.0)
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(Ledger(10.0).path))
    child.start()
    path = receive.recv()
    child.join()
    assert child.exitcode == 0
    assert not os.path.exists(os.path.dirname(path))
    ledger.spend(ONE)


# Making and rights


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_the_umask_decides_who_may_use_a_file_but_a_temporary_one_is_private(tmp_path):
    before = os.umask(0o002)
    try:
        found = Ledger(1.0, path=tmp_path / "ledger"), Ledger(1.0)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(os.stat(ledger.path).st_mode) for ledger in found]
    assert modes == [0o664, 0o600]


def test_a_ledger_is_made_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    Ledger(10.0, path=tmp_path / "ledger").spend(ONE)
    assert os.listdir(tmp_path) == ["ledger"]


def test_a_ledger_that_another_process_is_making_is_waited_for(tmp_path):
    path = tmp_path / "ledger"
    path.touch()

    def make():
        time.sleep(0.1)
        with ledger_file.transaction(str(path), "BEGIN IMMEDIATE") as database:
            ledger_file.create_tables(database, Ledger(10.0)._own[1], "adaptive")

    maker = threading.Thread(target=make)
    maker.start()
    ledger = Ledger(10.0, path=path)
    maker.join()
    ledger.spend(ONE)


@pytest.fixture
def shared():
    """A folder that everybody may use: that of the test belongs to one user."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def error_of_a_colleague(use):
    """Return name and message of the error that a user without special rights gets, or ""."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        said = ""
        try:
            use()
        except Exception as error:  # sent to the parent
            said = f"{type(error).__name__}: {error}"
        os.write(send, said.encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as lines:
        said = lines.read()
    os.waitpid(child, 0)
    return said


RIGHTS = [(0o000, 0o777), (0o444, 0o777), (0o666, 0o555), (0o666, 0o000)]


@forks
@pytest.mark.parametrize(("file", "folder"), RIGHTS, ids=lambda mode: f"{mode:03o}")
def test_a_missing_right_is_called_so(shared, file, folder):
    """It is no lost ledger; the remedy is no new one."""
    path = shared / "ledger"
    ledger = Ledger(10.0, path=path)
    ledger.spend(ONE)
    path.chmod(file)
    shared.chmod(folder)
    for handle in (lambda: ledger, lambda: Ledger(10.0, path=path)):
        said = error_of_a_colleague(lambda handle=handle: handle().spend(ONE))
        assert said.startswith("PermissionError: ")
        assert "must be readable and writable, and its folder writable" in said
        assert "Ask the owner for the missing right" in said
        assert "set_params" not in said
    shared.chmod(0o777)
    path.chmod(0o666)
    assert ledger.spent.epsilon == 1.0


@forks
def test_who_may_only_read_sees_what_is_spent(shared):
    path = shared / "ledger"
    Ledger(10.0, path=path).spend(ONE)
    path.chmod(0o444)
    shared.chmod(0o555)
    assert error_of_a_colleague(lambda: Ledger(10.0, path=path).remaining) == ""
    said = error_of_a_colleague(lambda: Ledger(10.0, path=shared / "new"))
    assert said.startswith("PermissionError: ")


@pytest.mark.parametrize("path", [3, 1.5, b"ledger", "led\0ger", "led\ud800ger", ["ledger"]])
def test_a_path_that_is_none_is_refused(path):
    rule = r"path must be a string without NUL characters or a pathlib.Path.*Pass for example"
    with pytest.raises(ValueError, match=rule):
        Ledger(1.0, path=path)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "be a ledger's file or be free"),
        ("x" * 300, r"be a path where a file can be made \(File name too long\)"),
        ("file/ledger", "lie in a folder that exists"),
    ],
)
def test_a_place_that_takes_no_file_is_refused(tmp_path, name, rule):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"path must {rule}"):
        Ledger(1.0, path=tmp_path / name)


# Wrong content


def changed(path, *statements):
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


ENTRY = "CREATE VIEW entry AS SELECT 1 AS number, 0.5 AS epsilon, 0.0 AS delta, 'replace_one' AS"
OTHER = {
    "view for the ceiling": "CREATE VIEW ceiling AS SELECT 1.0 epsilon, 0.0 delta, '' token",
    "view for the spends": f"{ENTRY} neighbors, '' AS mechanism, '' AS note, 1 AS holds",
    "further table": "CREATE TABLE more (x)",
    "further view": "CREATE VIEW more AS SELECT 1",
    "index": "CREATE INDEX more ON entry (note)",
    "trigger": "CREATE TRIGGER more AFTER INSERT ON entry BEGIN SELECT 1; END",
    "column": "ALTER TABLE entry ADD COLUMN more",
}


@pytest.mark.parametrize("name", OTHER)
def test_a_file_with_other_tables_is_no_ledger(tmp_path, name):
    """A view or a trigger of somebody else could run for ever; none is looked at."""
    ledger = Ledger(1.0, path=tmp_path / "ledger")
    word = OTHER[name].split()[2]
    dropped = [f"DROP TABLE {word}"] if name.startswith("view for") else []
    changed(ledger.path, *dropped, OTHER[name])
    with pytest.raises(ValueError, match="path must be a ledger's file or be free"):
        Ledger(1.0, path=tmp_path / "ledger")
    with pytest.raises(LedgerLost, match="has other tables"):
        ledger.spend(Guarantee(0.1))


ROW = "INSERT INTO entry VALUES ({}, {}, {}, 'replace_one', {}, '', 1, 'row'" + 8 * ", ''" + ")"
ROWS = {
    "infinite": (1, "9e999", 0.0, "''"),
    "negative": (1, -1.0, 0.0, "''"),
    "delta": (1, 0.1, 1.5, "''"),
    "text": (1, "'much'", 0.0, "''"),
    "bytes": (1, "x'00'", 0.0, "''"),
    "name": (1, 0.1, 0.0, "x'00'"),
    "last number": (2**63 - 1, 0.1, 0.0, "''"),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("composition", ["adaptive", "sums", "fixed"])
def test_a_row_that_is_no_spend_makes_a_ledger_lost(name, composition):
    ledger = Ledger(1.0, 1e-5, composition=composition)
    changed(ledger.path, ROW.format(*ROWS[name]))
    for use in (lambda: ledger.spent, lambda: ledger.entries, lambda: ledger.spend(ONE)):
        with pytest.raises(LedgerLost, match="a row is not a spend"):
            use()


@pytest.mark.parametrize("composition", ["adaptive", "sums", "fixed"])
@pytest.mark.parametrize("ceiling", [1.0, 1e308, math.inf])
@pytest.mark.parametrize("epsilon", [1e200, 1.7e308])
def test_the_greatest_numbers_raise_no_error_of_arithmetic(ceiling, epsilon, composition):
    """In the file and in a spend; what fits is recorded, the rest refused."""
    ledger = Ledger(ceiling, 1e-5, composition=composition)
    for number in (1, 2):
        changed(ledger.path, ROW.format(number, epsilon, 1e-7, "''"))
    assert ledger.spent.epsilon >= min(epsilon, ceiling)
    assert ledger.remaining.epsilon <= ceiling
    for more in (1.0, epsilon):
        if 3 * epsilon <= ceiling:
            ledger.spend(Guarantee(more, 1e-7))
        else:
            with pytest.raises(BudgetExceeded):
                ledger.spend(Guarantee(more, 1e-7))


@pytest.mark.parametrize("count", ["1e999", "[" * 100_000])
def test_losses_without_a_count_are_not_read(count):
    """They count as the worst with the same epsilon and delta."""
    text = f'{{"version": 1, "losses": [{{"kind": "gaussian", "mu": 1.0, "count": {count}}}]}}'
    ledger = Ledger(1.0, 1e-5)
    row = ROW.format(1, 0.5, 1e-6, "''").replace("'row', ''", f"'row', '{text}'", 1)
    changed(ledger.path, row)
    assert ledger.entries[0].losses == ()


# Killed writers, at random moments


@forks
@pytest.mark.slow("kills processes again and again")
@pytest.mark.parametrize("attack", ledger_kills.ATTACKS, ids=lambda attack: attack.__name__)
def test_killed_writers_lose_and_double_no_spend(attack, tmp_path):
    found = attack(20, tmp_path, np.random.default_rng(0))
    assert found.holds, str(found)
    assert found.acknowledged > 0


@forks
@pytest.mark.slow("kills processes again and again")
def test_processes_that_make_a_ledger_at_once_share_it_and_fill_it(tmp_path):
    assert ledger_kills.together(tmp_path).holds


@forks
@pytest.mark.slow("kills processes again and again")
def test_without_its_witnesses_a_ledger_loses_spends_by_restored_backups(tmp_path, monkeypatch):
    """The twin: each of the backups does."""
    monkeypatch.setattr(ledger_file, "check_holds", lambda *_: None)
    found = ledger_kills.restored(20, tmp_path, np.random.default_rng(0))
    assert found.lost >= 20
