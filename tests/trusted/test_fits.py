"""Every plan of a fit is certified from its releases, and refused with 2 % less noise.

`fit` certifies its plan before it charges a ledger. Here plans are certified without fitting, for
domains of every kind, both relations, rows and persons, and noise with and without a delta.
"""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from inner_fits import Design

from examples.benchmarks.upkeep import certified
from skdp import Domain, DPLogisticRegression, Ledger
from skdp.mechanisms import Independent
from skdp.trusted import NotPrivate, Public, certify

MANY = pytest.mark.slow("hundreds of plans")


def check(plans):
    """Certify plans; without a delta refuse each with 2 % less noise in all releases.

    With a delta the bound by which some plans divide it is not as sharp as the composition.
    """
    count = 0
    for releases, public in plans:
        count += 1
        certify(releases, public)
        if public.delta == 0:
            assert not certified.is_accepted(releases, public, 0.98)
    return count


@pytest.mark.parametrize("name", certified.PARAMETERS)
def test_some_plans_are_certified_and_those_of_2_percent_less_noise_are_refused(name):
    assert check(islice(certified.plans(name), 0, None, 31)) > 12


@MANY
@pytest.mark.parametrize("name", certified.PARAMETERS)
def test_plans_are_certified_and_those_of_2_percent_less_noise_are_refused(name):
    assert check(islice(certified.plans(name), 3, None, 3)) > 100


def pure(name):
    """Return some plans without a delta, for rows."""
    plans = certified.plans(name)
    return [plan for plan in islice(plans, 200) if plan[1].unit == "row" and plan[1].delta == 0]


def test_less_noise_is_never_more_private():
    for releases, public in islice(certified.plans("DPLinearRegression"), 0, None, 60):
        accepted = [certified.is_accepted(releases, public, f) for f in certified.FACTORS]
        assert accepted == sorted(accepted, reverse=True)
        assert not accepted[-1]


@pytest.mark.parametrize("name", ["DPLogisticRegression", "DPHuberRegressor"])
def test_the_unit_and_the_relation_are_those_of_the_plan(name):
    """The curvature of a person has a higher rank, and a replacement moves twice as much."""
    for releases, public in pure(name):
        assert not certified.is_accepted(releases, replace(public, unit="person"))
        other = {"replace_one": "add_remove", "add_remove": "replace_one"}[public.neighbors]
        if len(releases) > 1 or other == "replace_one":
            assert not certified.is_accepted(releases, replace(public, neighbors=other))


@pytest.mark.parametrize("law", ["gaussian", "logistic"])
def test_no_theorem_covers_independent_noise_for_persons_and_a_delta(law):
    domain = Domain({"a": (0, 1), "b": (0, 1)}, target=["n", "y"])
    model = DPLogisticRegression(delta=1e-6, domain=domain, mechanism=Independent(law))
    releases = model._plan(Design(domain, True), 500, 1).releases
    certify(releases, Public(1.0, 1e-6))
    with pytest.raises(NotPrivate, match="for persons and a delta"):
        certify(releases, Public(1.0, 1e-6, unit="person"))


def test_fits_certify_before_they_charge(monkeypatch):
    """A plan whose noise is 5 % too small is refused, and nothing is spent."""
    domain, ledger = Domain({"a": (0, 1), "b": (0, 1)}), Ledger(1.0)
    model = DPLogisticRegression(domain=domain, ledger=ledger, classes=[0, 1])
    own = type(model)._plan

    def weak(self, *facts):
        plan = own(self, *facts)
        *others, minimiser = plan.releases
        return replace(plan, releases=(*others, certified.less(minimiser, 0.95)))

    monkeypatch.setattr(type(model), "_plan", weak)
    with pytest.raises(NotPrivate, match="objective"):
        model.fit(domain.sample(500, random_state=0), np.arange(500) % 2)
    assert ledger.spent.epsilon == 0
    assert not hasattr(model, "coef_")
