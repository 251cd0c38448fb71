"""Disjoint groups of records: the greatest of their totals is spent, and no choice spends more."""

import copy
import itertools
import math
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_worst import fits, gaussian
from programs import output_of
from sklearn.base import clone

from skdp import Domain, DPLogisticRegression, PrivateSearchCV, estimate_domain
from skdp.model_selection import private_score
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, LedgerLost
from skdp.privacy.ledger import Seen
from skdp.privacy.ledger_rules import RULES, Budget, Entry, RecordGroup, accounts_after

REGIONS = ["north", "south"]


def release(epsilon, delta=0.0, **facts):
    return Guarantee(epsilon, delta, neighbors="add_remove", **facts)


def noisy(mu, delta):
    own = gaussian(mu, delta)
    return release(own.epsilon, delta, losses=own.losses)


def test_groups_spend_their_greatest_total_and_what_reads_all_records_counts_for_each():
    ledger = Ledger(1.0, 1e-5, composition="sums")
    parts = ledger.parallel("region", REGIONS)
    parts["north"].spend(release(0.3, 1e-6))
    parts["north"].spend(release(0.2))  # a second model of one group adds up
    parts["south"].spend(release(0.4, 3e-6))
    assert (ledger.spent.epsilon, ledger.spent.delta) == (0.5, 3e-6)
    ledger.spend(release(0.1), note="all")
    assert [parts[region].spent.epsilon for region in REGIONS] == [0.6, 0.5]
    assert (ledger.remaining.epsilon, ledger.remaining.delta) == (0.4, 7e-6)
    assert [handle.fits_left(0.1) for handle in (ledger, *parts.values())] == [4, 4, 5]
    for full in (ledger, parts["north"]):
        with pytest.raises(BudgetExceeded, match=r"spent so far epsilon=0\.6.*left epsilon=0\.4"):
            full.spend(release(0.5))
    parts["south"].spend(release(0.5))
    assert ledger.spent.epsilon == 1.0
    groups = [entry.group and entry.group.level for entry in ledger.entries]
    assert groups == ["north", "north", "south", None, "south"]


@settings(max_examples=20, deadline=None)
@given(
    composition=st.sampled_from([*RULES]),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=7),
)
def test_each_group_is_charged_like_a_ledger_of_its_own(composition, steps):
    """And the amount left fits, for a group and for all of them."""
    kinds = [release(0.25), release(0.1, 1e-6), noisy(0.05, 1e-6), noisy(0.15, 2e-6)]
    ledger, *single = (Ledger(1.0, 1e-5, composition=composition) for _ in range(3))
    handles = [ledger, *ledger.parallel("region", REGIONS).values()]
    for where, kind in steps:
        own = single if where == 0 else [single[where - 1]]
        taken = fits(handles[where], kinds[kind])
        assert taken == all(fits(one, kinds[kind]) for one in own)
        if not taken:
            return
    for one, part in zip(single, handles[1:], strict=True):
        assert (one.spent, one.remaining) == (part.spent, part.remaining)
    for handle in reversed(handles):
        left = handle.remaining
        if left.epsilon > 0:
            handle.spend(release(left.epsilon, left.delta))


def part_of(ledger, *groups, **unit):
    return next(iter(ledger.parallel(*groups, **unit).values()))


HERE = "region", REGIONS


@pytest.mark.parametrize(
    ("groups", "spend", "rule"),
    [
        (HERE, Guarantee(0.1), r"neighbors='add_remove'.*A replaced record.*both"),
        (HERE, release(0.1, unit="person"), "the unit 'row'.* person .*would change"),
        (("home", REGIONS), release(0.1), "groups by 'region' like.*, got 'home'.*write pairs"),
        (("region", ["east"]), release(0.1), r"""groups "\['north', 'south'\]" like.*\['east'\]"""),
    ],
    ids=["replaced", "person", "another column", "other levels"],
)
def test_what_the_theorem_does_not_cover_is_refused_before_it_is_charged(groups, spend, rule):
    ledger = Ledger(1.0)
    if "like" in rule:
        part_of(ledger, *HERE).spend(release(0.1))
    before = ledger.entries
    with pytest.raises(ValueError, match=f"guarantee must .*{rule}"):
        part_of(ledger, *groups).spend(spend)
    assert ledger.entries == before
    part_of(Ledger(1.0), *HERE, unit="person").spend(release(0.1, unit="person"))


def test_columns_and_levels_are_written_by_hand():
    for column in (3, ""):  # a file has "" for all records
        with pytest.raises(ValueError, match="column must be a name"):
            Ledger(1.0).parallel(column, REGIONS)
    for levels in ("north", [], [1, "1"], [1, True], np.array(["private"])):
        with pytest.raises(ValueError, match=r"levels must be a list of .*got") as error:
            Ledger(1.0).parallel("region", levels)
        assert "private" not in str(error.value)
    with pytest.raises(ValueError, match="ledger must be that of all records"):
        part_of(Ledger(1.0), *HERE).parallel("sex", ["f"])


# Handles, processes and the file


def test_a_group_is_the_same_in_copies_pickles_forks_and_other_processes(tmp_path):
    path = tmp_path / "ledger"
    ledger = Ledger(1.0, path=path)
    north, south = ledger.parallel("region", REGIONS).values()
    for same in (
        copy.deepcopy(north),
        pickle.loads(pickle.dumps(north)),
        clone(DPLogisticRegression(ledger=north)).ledger,
        Ledger(1.0, path=path).parallel("region", REGIONS[::-1])["north"],
    ):
        assert same == north
        assert hash(same) == hash(north)
        same.spend(release(0.1))
    assert len({ledger, north, south}) == 3
    assert "region='north'" in repr(north)
    if hasattr(os, "fork"):
        if (child := os.fork()) == 0:
            south.spend(release(0.1))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert south.spent.epsilon == 0.1
    output_of(f"""
        from skdp.privacy import Guarantee, Ledger
        parts = Ledger(1.0, path={str(path)!r}).parallel("region", {REGIONS!r})
        parts["north"].spend(Guarantee(0.2, neighbors="add_remove"))
    """)
    assert [own.spent.epsilon for own in (north, ledger)] == [0.6, 0.6]
    os.unlink(path)
    with pytest.raises(LedgerLost):
        south.spend(release(0.1))


# Fits


MODEL = DPLogisticRegression(
    domain=Domain({"age": (18, 90)}, target=["no", "yes"]), neighbors="add_remove"
)
AGES = pd.DataFrame({"age": np.linspace(20, 80, 200)})
LABELS = np.where(AGES["age"] > 50, "yes", "no")


def test_models_of_groups_are_charged_before_noise_and_a_group_may_have_no_records():
    ledger = Ledger(1.0)
    for region, part in ledger.parallel("region", REGIONS).items():
        n = 200 * (region == "north")
        model = clone(MODEL).set_params(ledger=part).fit(AGES[:n], LABELS[:n])
        with pytest.raises(BudgetExceeded):
            model.fit(AGES, LABELS)
    assert (ledger.spent.epsilon, len(ledger.entries)) == (1.0, 2)


SOURCES = ["table", "unnamed", "array", "file", "search", "bounds", "target", "groups", "score"]
SOURCES += ["groups of bounds", "array of search", "array of score"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.filterwarnings("ignore::skdp.privacy.UndeclaredDomainWarning")
def test_a_table_with_the_column_of_the_groups_is_refused_before_the_charge(source, tmp_path):
    """Perhaps it is the whole table. The names of an array are those of its domain."""
    part = Ledger(1.0).parallel("region", REGIONS)["north"]
    X, both = (
        AGES.assign(region=0),
        Domain({"age": (18, 90), "region": (0, 1)}, target=["no", "yes"]),
    )
    X.assign(y=LABELS).to_csv(tmp_path / "all.csv", index=False)
    model = clone(MODEL).set_params(ledger=part)
    free = clone(model).set_params(domain=None, classes=["no", "yes"])
    search = PrivateSearchCV(free, {"fit_intercept": [True, False]}, epsilon=1.0)
    facts = {"epsilon": 0.1, "neighbors": "add_remove", "ledger": part}
    calls = {
        "table": lambda: model.fit(X, LABELS),
        "unnamed": lambda: free.fit(X, LABELS),
        "array": lambda: clone(model).set_params(domain=both).fit(X.to_numpy(), LABELS),
        "file": lambda: model.fit(tmp_path / "all.csv", target="y"),
        "search": lambda: search.fit(X, LABELS),
        "bounds": lambda: estimate_domain(X, **facts),
        "target": lambda: clone(model).set_params(classes=[0, 1]).fit(X, target="region"),
        "groups": lambda: model.fit(X, LABELS, groups="region"),
        "score": lambda: private_score(
            free.set_params(ledger=None).fit(X, LABELS), X, LABELS, **facts
        ),
        "array of score": lambda: private_score(
            DPLogisticRegression(domain=both).fit(X, LABELS), X.to_numpy(), LABELS, **facts
        ),
        "array of search": lambda: (
            clone(search)
            .set_params(estimator__domain=both, estimator__ledger=None, ledger=part)
            .fit(X.to_numpy(), LABELS)
        ),
        "groups of bounds": lambda: estimate_domain(X, groups="region", **facts),
    }
    words = "X must not have the column 'region'.*Select the records of 'north', then drop"
    with pytest.raises(ValueError, match=words):
        calls[source]()
    assert part.entries == ()


# The theorem, by the exact law of all that can be seen

EPSILON, DELTA = 1.0, 0.02


def answers(epsilon, leak=0.0):
    """Laws of the worst (epsilon, leak)-private release with and without a record."""
    yes = (1 - leak) / (1 + math.exp(-epsilon))
    no = 1 - leak - yes
    return np.array([[yes, no, leak, 0.0], [no, yes, 0.0, leak]])


SPENDS = [(EPSILON, 0.0), (EPSILON / 2, 0.0), (0.0, DELTA / 2), (EPSILON / 2, DELTA / 4)]


def entry_of(spend, group):
    return Entry(*spend, "", "", "", True, group=group and RecordGroup("region", "", "row", group))


def worst(changes, after=accounts_after):
    """The delta at EPSILON of the best analyst of at most three spends that a ledger accepts.

    ``changes`` states which way groups change: 1 loses a record, -1 gets one. None stands for all
    records. The analyst sees each output before the next spend is chosen. The value of a history
    is the greatest over the next spends of the sum of the values of their outputs.
    """

    def value(accounts, n, p, q):
        best = max(0.0, p - math.exp(EPSILON) * q)
        for spend, group in itertools.product(SPENDS, changes) if n and p else ():
            entry, laws = entry_of(spend, group), answers(*spend)[:: changes[group] or 1]
            read = Seen((accounts,)).of(entry.group)
            if not all(account.takes(entry) for account in read):
                continue
            pairs = zip(p * laws[0], q * laws[1 if changes[group] else 0], strict=True)
            later = after(accounts, entry)
            best = max(best, math.fsum(value(later, n - 1, *pair) for pair in pairs))
        return best

    return value({None: RULES["sums"](Budget(EPSILON, DELTA))}, 3, 1.0, 1.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_no_choice_among_groups_tells_more_of_a_record_than_the_ceiling(sign):
    """Two leaks have 99 hundredths of its delta: groups are charged no more."""
    assert 0.99 * DELTA < worst({None: sign, "north": sign, "south": 0}) <= DELTA * (1 + 1e-12)
    # A record whose level has no ledger, or is missing.
    assert worst({None: sign, "north": 0, "south": 0}) <= DELTA * (1 + 1e-12)


@pytest.mark.parametrize("south", [-1, 1])
def test_a_record_that_moves_or_is_in_two_groups_is_told(south):
    """Why a replaced record, and a person with rows in two groups, are refused.

    The same happens if the records of two groups overlap, which no ledger can see.
    """
    assert worst({None: 1, "north": 1, "south": south}) > 5 * DELTA


def test_a_rule_that_forgets_what_reads_all_records_is_caught():
    """The twin: a group opened later starts with an empty account."""

    def faulty(accounts, spend):
        found = accounts_after(accounts, spend)
        empty = RULES["sums"](Budget(EPSILON, DELTA)).after(spend)
        return found | dict.fromkeys(found.keys() - accounts.keys(), empty)

    assert worst({None: 1, "north": 1, "south": 0}, faulty) > DELTA
