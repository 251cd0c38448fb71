"""Attacks on ledgers: writers are killed, and no spend that was acknowledged may get lost.

    python -m examples.benchmarks.attacks.ledger_kills --kills 1000 --seed 0

The kills are divided among five attacks: one name, two parts with ceilings of their own, two names
of one file, backups that are restored under a living handle, and forks while a thread spends. A
further one lets eight processes spend at the same time. A spend is lost if it was acknowledged and
is not in the file, or if a handle goes on although its spends are gone; it is doubled if it is
there twice. The exit code is 1 if any spend is lost or doubled, or if a process hangs. Needs POSIX.
"""

from __future__ import annotations

import argparse
import math
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skdp import Guarantee, Ledger

KILLS, PROCESSES, CEILING = 1000, 8, 400
# Seconds: a writer lives up to the first; a child that is not killed hangs after the second.
LIFE, PATIENCE = 0.02, 20.0
UNIT = Guarantee(1.0)


@dataclass(frozen=True)
class Tally:
    """One line of the report."""

    attack: str
    kills: int
    acknowledged: int
    recorded: int
    lost: int
    doubled: int
    hung: int = 0

    def __str__(self) -> str:
        numbers = (self.kills, self.acknowledged, self.recorded, self.lost, self.doubled, self.hung)
        return f"{self.attack:<36}" + "".join(f"{number:>14,}" for number in numbers)

    @property
    def holds(self) -> bool:
        """Whether no spend was lost or doubled, and no process hung."""
        return not (self.lost or self.doubled or self.hung)


def opened(path: Path, ceiling: float = math.inf) -> Ledger:
    """Return a new handle."""
    return Ledger(ceiling, path=path, composition="sums")


def tally(attack: str, kills: int, acknowledged: list[str], path: Path, hung: int = 0) -> Tally:
    """Compare what was acknowledged with what is in the file."""
    entries = opened(path).entries
    found = Counter(entry.note for entry in entries)
    lost = sum(note not in found for note in acknowledged)
    doubled = sum(count - 1 for count in found.values())
    return Tally(attack, kills, len(acknowledged), len(entries), lost, doubled, hung)


class Writer:
    """A child that spends until it is killed; it writes each acknowledged spend to a pipe."""

    def __init__(self, where: Path | Ledger, label: str, ceiling: float = math.inf) -> None:
        self._lines, write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            with suppress(BaseException):  # a refusal ends the child
                self._spend(
                    opened(where, ceiling) if isinstance(where, Path) else where, label, write
                )
            os._exit(0)
        os.close(write)

    def _spend(self, ledger: Ledger, label: str, write: int) -> None:
        number = 0
        while True:
            ledger.spend(UNIT, note=f"{label}.{number}")
            os.write(write, f"{label}.{number}\n".encode())
            number += 1

    def acknowledged(self, life: float = math.inf) -> list[str]:
        """Kill the child some time after its first spend and return what it acknowledged."""
        if life < math.inf:
            select.select([self._lines], [], [], PATIENCE)
            time.sleep(life)
            os.kill(self._pid, signal.SIGKILL)
        with os.fdopen(self._lines) as lines:
            found = lines.read().split()
        os.waitpid(self._pid, 0)
        return found


def one_name(kills: int, folder: Path, rng: np.random.Generator) -> Tally:
    """Kill two writers at a time, again and again."""
    path, seen = folder / "ledger", []
    for number in range(0, kills, 2):
        writers = [Writer(path, f"{number}.{one}") for one in range(2)]
        for writer in writers:
            seen += writer.acknowledged(rng.uniform(0, LIFE))
    return tally("one name", kills, seen, path)


def two_parts(kills: int, folder: Path, rng: np.random.Generator) -> Tally:
    """Kill a writer of each of two parts at a time; a spend beyond a ceiling counts as doubled."""
    path, seen = folder / "ledger", []
    parts = [opened(path).part(name, kills) for name in "ab"]
    for number in range(0, kills, 2):
        writers = [Writer(part, f"{number}.{name}") for part, name in zip(parts, "ab", strict=True)]
        for writer in writers:
            seen += writer.acknowledged(rng.uniform(0, LIFE))
    found = tally("two parts", kills, seen, path)
    beyond = sum(max(0, len(part.entries) - kills) for part in parts)
    return replace(found, doubled=found.doubled + beyond)


def two_names(kills: int, folder: Path, rng: np.random.Generator) -> Tally:
    """Link the file while it is in use, and kill a writer of each name in turn."""
    path, seen = folder / "ledger", []
    other = folder / "elsewhere" / "ledger"
    other.parent.mkdir()
    for number in range(0, kills, 2):
        first = Writer(path, f"{number}.0")
        seen += first.acknowledged(rng.uniform(0, LIFE / 2))
        os.link(path, other)
        seen += Writer(other, f"{number}.1").acknowledged(rng.uniform(0, LIFE / 2))
        os.unlink(other)
    return tally("two names", kills, seen, path)


def restored(kills: int, folder: Path, rng: np.random.Generator) -> Tally:
    """Restore a backup, in place or by renaming; others spend; then the earlier handle spends."""
    path, backup = folder / "ledger", folder / "backup"
    seen, lost, acknowledged = [], 0, 0
    for number in range(kills):
        ledger = opened(path)
        known = len(ledger.entries)  # and the journal of a killed writer is no more
        shutil.copy(path, backup)
        mine = [f"{number}.0.{spend}" for spend in range(rng.integers(1, 5))]
        for note in mine:
            ledger.spend(UNIT, note=note)
        if number % 2:
            os.replace(backup, path)
        else:
            path.write_bytes(backup.read_bytes())
        seen += Writer(path, f"{number}.1").acknowledged(rng.uniform(0, LIFE))
        acknowledged += len(mine)
        with suppress(ValueError):
            ledger.spend(UNIT, note=f"{number}.2")
            seen += [f"{number}.2"]
            lost += len(mine)
        assert len(opened(path).entries) >= known
    found = tally("restored backup", kills, seen, path)
    return Tally(
        found.attack,
        kills,
        found.acknowledged + acknowledged,
        found.recorded,
        found.lost + lost,
        found.doubled,
    )


def forks(kills: int, folder: Path, rng: np.random.Generator) -> Tally:
    """Fork while another thread spends; each child spends until it is killed, or once."""
    path, seen, hung = folder / "ledger", [], 0
    ledger = opened(path)
    with spending(ledger, seen):
        for number in range(kills):
            seen += Writer(ledger, f"{number}.0").acknowledged(rng.uniform(0, LIFE))
            child = os.fork()
            if child == 0:
                ledger.spend(UNIT, note=f"{number}.1")
                os._exit(0)
            if ends(child):
                seen.append(f"{number}.1")
            else:
                hung += 1
    return tally("forks beside a thread", kills, seen, path, hung)


@contextmanager
def spending(ledger: Ledger, seen: list[str]) -> Iterator[None]:
    """Spend in another thread meanwhile."""
    done = threading.Event()

    def spend() -> None:
        number = 0
        while not done.wait(0.0005):  # others get the lock of the file, too
            ledger.spend(UNIT, note=f"thread.{number}")
            seen.append(f"thread.{number}")
            number += 1

    thread = threading.Thread(target=spend)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def ends(child: int, patience: float = PATIENCE) -> bool:
    """Return whether a child ends by itself; kill it otherwise."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def together(folder: Path) -> Tally:
    """Let eight processes make one ledger and spend at the same time, until it is full."""
    path = folder / "ledger"
    writers = [Writer(path, str(number), CEILING) for number in range(PROCESSES)]
    seen = [note for writer in writers for note in writer.acknowledged()]
    entries = opened(path, CEILING).entries
    found = Counter(entry.note for entry in entries)
    lost = sum(note not in found for note in seen) + abs(len(entries) - CEILING)
    doubled = len(entries) - len(found)
    return Tally(f"{PROCESSES} processes, {CEILING} fit", 0, len(seen), len(entries), lost, doubled)


def speed(folder: str | None) -> float:
    """Return the spends of one handle in a second, the best of three."""
    best = 0.0
    with tempfile.TemporaryDirectory(dir=folder) as place:
        ledger = Ledger(math.inf, path=Path(place) / "ledger")
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(200):
                ledger.spend(UNIT)
            best = max(best, 200 / (time.perf_counter() - start))
    return best


ATTACKS: tuple[Callable[[int, Path, np.random.Generator], Tally], ...] = (
    one_name,
    two_parts,
    two_names,
    restored,
    forks,
)


def main() -> int:
    """Print a line per attack; return 1 if any spend was lost or doubled or a process hung."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="in all attacks together")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--folder", help="where the files lie; by default that of the system")
    asked = parser.parse_args()
    names = "kills", "acknowledged", "recorded", "lost", "doubled", "hung"
    print(f"{'attack':<36}" + "".join(f"{name:>14}" for name in names))
    found = []
    for number, attack in enumerate(ATTACKS):
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            rng = np.random.default_rng([asked.seed, number])
            found.append(attack(asked.kills // len(ATTACKS), Path(folder), rng))
        print(found[-1], flush=True)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        found.append(together(Path(folder)))
    print(found[-1], flush=True)
    for name, place in (("in memory", "/dev/shm"), ("on disk", asked.folder)):
        if place is None or os.path.isdir(place):
            print(f"spends per second {name}: {speed(place):,.0f}", flush=True)
    return int(not all(line.holds for line in found))


if __name__ == "__main__":
    sys.exit(main())
