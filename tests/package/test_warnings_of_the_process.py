"""The filters of warnings belong to the process: the package does not change them."""

import ast
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pytest

import skdp
from skdp import Domain, DPHuberRegressor, DPLogisticRegression, UndeclaredDomainWarning

FILES = sorted(Path(skdp.__file__).parent.rglob("*.py"))
CHANGES = {"catch_warnings", "simplefilter", "filterwarnings", "resetwarnings", "showwarning"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_code_changes_the_filters(path):
    """Docstrings may show it. A replay is a test: it records what a fit warns of."""
    if path.name == "recording.py":
        return
    assert not names(path.read_text(encoding="utf-8")) & CHANGES


def names(code):
    return {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(ast.parse(code))}


def test_the_search_for_changes_finds_one():
    assert "catch_warnings" in names("with warnings.catch_warnings():\n    pass")


def test_the_filters_are_not_changed_while_a_target_is_read():
    seen = []

    class Target:
        """An array-like that looks at the filters while it is read."""

        def __len__(self):
            return 4

        def __array__(self, dtype=None, copy=None):
            seen.append(list(warnings.filters))
            return np.array([0.0, 1.0, 0.0, 1.0])

    DPHuberRegressor(domain=Domain.unit_box(1, target=(0, 1))).fit(np.zeros((4, 1)), Target())
    assert seen
    assert all(found == list(warnings.filters) for found in seen)


def test_fits_in_threads_leave_the_filters_and_later_warnings_are_shown():
    """Lists, frames, columns of polars and objects are read in eight threads."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 2)).round(1)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]}).astype(object)
    domain = Domain({"a": (-1, 1), "b": (-1, 1)}, target=[0, 1])
    tables = [frame, polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})]
    y = (np.arange(60) % 2).tolist()
    targets = [y, polars.Series(y), pd.Series(y, dtype=object)]

    def work(number):
        for table in tables:
            model = DPLogisticRegression(domain=domain, random_state=number)
            for labels in targets:
                model.fit(table, labels)

    with warnings.catch_warnings():
        before, interval = list(warnings.filters), sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(work, range(32)))
        finally:
            sys.setswitchinterval(interval)
        assert list(warnings.filters) == before
    with pytest.warns(UndeclaredDomainWarning):
        DPHuberRegressor().fit(X, X[:, 0])
