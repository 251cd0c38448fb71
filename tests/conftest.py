"""What several test modules share: one small table with its public domain."""

import gc
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _pytest.doctest import DoctestModule

from skdp import Domain

# Some tests use commands of the examples. At the end: an installed package is found before skdp.
sys.path.append(str(Path(__file__).resolve().parents[1]))

COLUMNS = {"age": (17, 90), "sex": ["f", "m"], "job": ["none", "clerk", "smith"], "hours": (0, 80)}


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no examples in the docstrings of tests: there are none, and a look takes long."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


def pytest_collection_finish():
    """Exempt all that was imported and collected from garbage collection, which would scan it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their markers
def pytest_collection_modifyitems(items):
    """Leave all but the first cases of a long test to the slow tests, which give a reason."""
    seen = Counter()
    for item in items:
        if not all(mark.args for mark in item.iter_markers("slow")):
            raise pytest.UsageError(f"{item.nodeid}: give the reason, pytest.mark.slow('...')")
        if (mark := item.get_closest_marker("rest_is_slow")) is not None:
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > mark.args[0]:
                item.add_marker(pytest.mark.slow("more cases of the same test"))


@pytest.fixture(scope="session")
def domain():
    """Numbers and levels, with two labels."""
    return Domain(COLUMNS, target=["no", "yes"])


@pytest.fixture(scope="session")
def pay_domain():
    """The same columns with a target of bounded numbers."""
    return Domain(COLUMNS, target=(-10.0, 50.0))


@pytest.fixture(scope="session")
def people():
    """Rows inside the domain, in an order of columns that is not the domain's."""
    rng = np.random.default_rng(5)
    n = 400
    return pd.DataFrame(
        {
            "job": rng.choice(COLUMNS["job"], n),
            "hours": rng.uniform(0, 80, n),
            "sex": rng.choice(COLUMNS["sex"], n),
            "age": rng.uniform(17, 90, n),
        }
    )


@pytest.fixture(scope="session")
def answers(people):
    """Labels that depend on the rows."""
    score = (people["age"] - 50) / 10 + 2 * (people["job"] == "smith") - 1
    noise = np.random.default_rng(6).logistic(size=len(people))
    return np.where(score + noise > 0, "yes", "no")


@pytest.fixture(scope="session")
def pay(people):
    """Numbers that depend on the rows, some of them outside the declared bounds."""
    noise = np.random.default_rng(7).normal(size=len(people))
    return 0.6 * people["hours"] + 5.0 * (people["job"] == "smith") + noise
