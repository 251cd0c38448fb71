"""Another recorder sees the same: dp-recorder 0.1.0 of the authors of the idea, if it is installed.

It is not on PyPI: ``pip install git+https://github.com/ObliviousAI/dp-recorder``.
"""

import numpy as np
import pytest
from inner_replay import Recorder
from numpy.random import PCG64
from test_replay_faults import FAULTS, SOUND, given

from skdp.trusted.change import Change

auditing = pytest.importorskip("dp_recorder.auditing.audit_primitives")


class Door(Recorder):
    """Tells an auditor of each published sum, and publishes what the auditor returns."""

    def __init__(self):
        super().__init__(PCG64(0))
        self.times = 0

    def __deepcopy__(self, memo):
        return self

    def restart(self):
        self.times += 1
        self.bit_generator.state = PCG64([0, self.times]).state
        return self.times

    def published(self, release, exact, draw, facts):
        def distance(mine, others):
            steps = [float(b - a) for a, b in zip(mine, others, strict=True)]
            return gauge(release.change, np.ldexp(steps, facts["unit"]))

        told = {"kind": release.name, "input_arg": "sums", "sensitivity_arg": "most"}

        @auditing.audit_spec(**told, metric_fn=distance)
        def mechanism(sums, most, release):
            return draw(self)

        self.restart()
        value = mechanism(exact, 1.0, repr(release))
        self.restart()
        return value


def gauge(change, moved):
    """Return the size of a change over the greatest one; 0 if it is in no ball."""
    is_ball = isinstance(change, Change)
    return float(change.ball.gauge(moved)) / change.radius if is_ball else 0.0


def violation(estimator, neighbors):
    """Return what dp-recorder finds, or nothing."""
    estimator, (table, neighbour) = given(estimator, neighbors)
    auditor = auditing.Auditor()
    try:
        for data in (table, neighbour):
            with auditor:
                fitted = estimator.set_params(random_state=Door()).fit(*data)
                auditing.ensure_equality(file=fitted.to_json())
            auditor.set_replay()
        auditor.validate_records()
    except (AssertionError, RuntimeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", ["linear", "linear, add_remove", "moments"])
def test_a_regression_passes_the_audit(name, neighbors):
    assert violation(SOUND[name](), neighbors) == ""


@pytest.mark.parametrize(
    "name",
    [
        "rows depend on the rows before them",
        "cells are not clipped",
        "a sum is the count times a float",
        "the order of releases depends on the data",
        "the plan depends on the number of records",
    ],
)
def test_it_finds_the_same_faults(name, monkeypatch):
    _, plant, estimator, neighbors = FAULTS[name]
    plant(monkeypatch)
    assert violation(estimator(), neighbors)
