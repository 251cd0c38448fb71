"""A strong attacker: it knows two tables, sees many fits to each, and guesses between the tables.

A quarter of the fits to each table are used to learn which features, thresholds and values
distinguish the tables. The attacker then guesses the table of each other fit. For independent
releases and equally likely tables a guess is right with a mean probability of at most
(1 + delta(0)) / 2, where delta(0) is the total variation that the guarantee allows. The number of
right guesses exceeds each k above its mean at most as often as a binomial variable (Hoeffding
1956, Theorem 4). Events that are rare under both tables are compared with e^epsilon and delta by
Clopper-Pearson limits. Few guesses are tried, and the false-alarm rate is divided by their number.

Features are all content of a fitted model as numbers: values, last bits, layouts, texts and its
pickle. `check_audit` also bounds epsilon by events of the coefficients alone.
"""

import pickle
import re
import types
import warnings
import zlib
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain

import numpy as np
from scipy.stats import binom
from sklearn.base import clone, is_classifier

from skdp import Domain
from skdp.randomness import as_generator
from skdp.testing import epsilon_lower_bound
from skdp.testing.audit import ratio_bound
from skdp.testing.mechanism import NO_BIT, last_bits

# Greatest depth of nesting, and number of items of a list, that are read.
DEEPEST, MOST_ITEMS = 8, 64
# Number of entries of an array that are separate features, besides statistics of all entries.
MOST_ENTRIES = 128
# Number of blocks in which differences of entries are averaged, and bound on a difference.
BLOCKS, MOST_GAP = 64, 64.0
# Values that replace NaN and infinity, and value of a feature that a fit does not have.
NAN, INFINITE, ABSENT = -1e300, 1e300, -2e300
SKIPPED = (types.ModuleType, types.FunctionType, types.MethodType, np.random.Generator, type)
# One fit in LEARNT is used for learning.
LEARNT = 4
# False-alarm rate of one attack.
ALARM = 1e-6
# Number of single features, of rare events and of sums that are tried.
SINGLE, RARE, SUMS = 6, 2, 8
THRESHOLDS, VALUES = 24, 6
# A sum has at least FEW features, and none of a greater absolute value than UNUSUAL.
FEW, UNUSUAL = 6, 1e100
# Values that no message of a fit may contain.
NUMBER, WORD = 12345.678, "SECRET"


# Checks


def check_attack(estimator, pair, n_fits, outputs=None, noiseless=None, random_state=None):
    """Check that no feature of a fit shows which of two neighbours was fitted.

    ``noiseless`` gives the values of ``outputs`` of a model and a table without noise. Return the
    outputs of the fits to each table, and the guarantee.
    """
    rng = None if random_state is None else as_generator(random_state)
    model = prepared(estimator, np.shape(pair[0][0])[1], random_state=rng)
    outputs = outputs or coefficients
    seen, read = ([], []), ([], [])
    for table in pair:  # caches that a first fit fills must not distinguish the tables
        features(model.fit(*table))
    for which in np.random.default_rng(0).permutation([0, 1] * n_fits):
        found = features(model.fit(*pair[which]))
        out = outputs(model)
        if noiseless is not None:
            found |= of_differences(out, [noiseless(model, *table) for table in pair])
        seen[which].append(out)
        read[which].append(found)
    found = attack(*read, model.guarantee_)
    assert found is None, f"{type(estimator).__name__} is not private: {found}"
    return seen, model.guarantee_


def check_audit(estimator, pair, n_fits, random_state=None):
    """Check that many fits to two neighbours show at most the claimed epsilon."""
    seen, claim = check_attack(estimator, pair, n_fits, random_state=random_state)
    found = epsilon_lower_bound(*seen, delta=claim.delta)
    name = type(estimator).__name__
    assert found <= claim.epsilon, f"{name} is not private: an audit shows epsilon >= {found:.3g}"


def check_independence(estimator, released):
    """Check that only the released attributes depend on the data, not repr, types or warnings."""
    seen = []
    for X, y in unlike(estimator):
        model = prepared(estimator, random_state=0)
        with warnings.catch_warnings(record=True, action="always") as caught:
            model.fit(X, y)
        told = dict(texts(model))
        told["warnings"] = sorted(f"{w.category.__name__}: {w.message}" for w in caught)
        for name, leaf in walk("", model, set(), DEEPEST, private=True):
            attribute = re.match(r"\.(\w+)", name)[1]
            public = attribute.endswith("_") and not attribute.startswith("_")
            shown = (public and attribute not in released) or name.endswith(":layout")
            told[name] = content(leaf) if shown else type(leaf)
        seen.append(told)
    first = seen[0]
    for other in seen[1:]:
        moved = {name for name in first | other if first.get(name) != other.get(name)}
        assert not moved, f"{type(estimator).__name__}: data change {sorted(moved)}"


def check_messages(estimator):
    """Check that invalid data are refused, and that no message contains a value."""
    for X, y in spoilt(estimator):
        with warnings.catch_warnings(record=True, action="always") as caught:
            try:
                prepared(estimator, random_state=0).fit(X, y)
            except Exception as error:
                told = "".join(chain_of(error))
            else:
                raise AssertionError("missing values, words and other labels must be refused")
        told += "".join(str(w.message) for w in caught)
        assert not any(secret in told for secret in (str(NUMBER), WORD)), "a message tells a value"


def chain_of(error):
    """Yield the texts of an error and of its causes and contexts, also of suppressed ones."""
    while error is not None:
        yield from (str(error), repr(error.args), *getattr(error, "__notes__", ()))
        error = error.__context__ or error.__cause__


def coefficients(model):
    return np.append(np.ravel(model.coef_), model.intercept_)


def prepared(estimator, columns=2, **parameters):
    """Return a clone for numbers in [-1, 1], and targets in [-1, 1] or labels "a" and "b"."""
    if "domain" in estimator.get_params(deep=False):
        target = ["a", "b"] if is_classifier(estimator) else (-1.0, 1.0)
        parameters["domain"] = Domain.unit_box(columns, target=target)
    return clone(estimator).set_params(**parameters)


def unlike(estimator, n=40):
    """Return different tables with the same public facts."""
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    if is_classifier(estimator):
        targets = [np.where(X[:, 0] > 0, "a", "b"), np.full(n, "a"), np.full(n, "b")]
    else:
        targets = [X @ [0.5, -0.5], np.full(n, -1.0), np.full(n, 1e6)]
    found = list(zip([X, np.zeros((n, 2)), 1e9 * X], targets, strict=True))
    if estimator.neighbors == "add_remove":
        found.append((X[: n - 9], targets[0][: n - 9]))  # then the number of records is private too
    return found


def spoilt(estimator, n=37):
    """Return invalid tables that contain NUMBER or WORD."""
    X = np.full((n, 2), 0.25)
    X[1, 0] = NUMBER
    y = np.array((["a", "b"] * n)[:n]) if is_classifier(estimator) else np.full(n, NUMBER)
    missing, word = X.copy(), X.astype(object)
    missing[3, 1], word[3, 1] = np.nan, WORD
    strange = np.append(y[1:].astype(object), WORD)
    return [(missing, y), (word, y), (X, strange), (X, y[1:])]


# What a fit shows


def features(model):
    """Return the features of a fitted model by name: attributes, texts and its pickle.

    Parameters are left out, because a fit does not write them.
    """
    found = {}
    given = set(model.get_params(deep=False))
    for name, value in sorted(vars(model).items()):
        if name.startswith("_"):
            found.update(of_pickle(name, pickle.dumps(value)))
        elif name not in given:
            found.update(of_leaves(walk(name, value, set(), DEEPEST, private=False)))
    found.update(of_leaves(texts(model)))
    return found | {"bytes of the pickle": float(len(pickle.dumps(model)))}


def of_leaves(leaves):
    return chain.from_iterable(of_leaf(name, leaf) for name, leaf in leaves)


@lru_cache(maxsize=64)  # most private attributes are the same in each fit
def of_pickle(name, pickled):
    return tuple(of_leaves(walk(name, pickle.loads(pickled), set(), DEEPEST, private=True)))


def texts(model):
    """Yield the texts of a model and of its guarantee."""
    yield "repr", repr(model)
    yield from texts_of(pickle.dumps(getattr(model, "guarantee_", None)))


@lru_cache(maxsize=64)  # composing losses for a card takes longer than a fit
def texts_of(pickled):
    guarantee = pickle.loads(pickled)
    html = getattr(guarantee, "_repr_html_", str)
    return ("card of the guarantee", str(guarantee)), ("html of the guarantee", html())


def walk(path, value, above, depth, private):
    """Yield the leaves of an object with their paths; ``above`` has the objects on the path."""
    if depth == 0 or id(value) in above or isinstance(value, SKIPPED):
        return
    if isinstance(value, str | bytes | bool | int | float | complex | np.generic | None):
        yield path, value
        return
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubcMmSU":
        yield from ((path, value), (f"{path}:layout", layout(value)))
        return
    above = above | {id(value)}
    for name, item in inside(value, private):
        yield from walk(f"{path}{name}", item, above, depth - 1, private)


def inside(value, private):
    """Yield the content of an object, by names that do not depend on the order of insertion."""
    if isinstance(value, np.ndarray):  # of objects
        yield ":layout", layout(value)
        value = value.ravel().tolist()
    if isinstance(value, dict):
        yield ":size", len(value)
        yield from ((f"[{key!r}]", value[key]) for key in sorted(value, key=repr))
    elif isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
        yield ":size", len(items)
        yield from ((f"[{k}]", item) for k, item in enumerate(items[:MOST_ITEMS]))
    elif hasattr(value, "__dict__"):
        held = sorted(vars(value).items())
        yield from ((f".{name}", v) for name, v in held if private or not name.startswith("_"))


def layout(value):
    """Return the memory layout of an array."""
    flags = value.flags
    told = (flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned, flags.owndata)
    return f"{type(value).__name__} {value.dtype} {value.shape} {value.strides} {told}"


def content(leaf):
    return leaf.tobytes() if isinstance(leaf, np.ndarray) else repr(leaf).encode()


def of_leaf(name, leaf):
    """Yield features of one leaf."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub":
        yield from of_array(name, np.asarray(leaf, dtype=float).ravel())
    elif isinstance(leaf, bool | int | float | np.number | np.bool_) and not np.iscomplexobj(leaf):
        yield f"{name}:type", float(zlib.crc32(type(leaf).__name__.encode()))
        yield from of_array(name, np.array([float(leaf)]))
    else:
        yield f"{name}:text", float(zlib.crc32(content(leaf)))
        yield f"{name}:length", float(len(content(leaf)))


def of_array(name, values):
    if not values.size:
        return
    bits = last_bits(values)
    # Finite numbers in place of NaN and infinity.
    plain = np.nan_to_num(values, nan=NAN, posinf=INFINITE, neginf=-INFINITE)
    for k in chosen(values.size):
        yield f"{name}[{k}]", float(plain[k])
        yield f"{name}[{k}]:last bit", float(bits[k])
    yield f"{name}:bits of nan", float(zlib.crc32(values[np.isnan(values)].tobytes()))
    yield f"{name}:negative zeros", float(((values == 0) & np.signbit(values)).sum())
    if values.size > 1:
        yield from ((f"{name}:{k}", v) for k, v in sums("last bit", bits).items())
        yield from ((f"{name}:{k}", v) for k, v in sums("value", plain).items())


@lru_cache(maxsize=64)
def chosen(size):
    """Return the places of at most MOST_ENTRIES entries of an array."""
    return tuple(np.unique(np.linspace(0, size - 1, MOST_ENTRIES).astype(int)).tolist())


def sums(what, values):
    with np.errstate(over="ignore"):
        found = {"mean": values.mean(), "least": values.min(), "greatest": values.max()}
    return {f"{name} {what}": float(value) for name, value in found.items()}


def of_differences(outputs, candidates):
    """Return the last bits of the exact differences between outputs and each candidate.

    The candidates are the values of the tables without noise. The difference from the true one is
    the noise, and a grid of the noise is visible in its last bits.
    """
    seen = exactly(outputs)
    rests, found = [], {}
    for k, candidate in enumerate(candidates):
        pairs = zip(seen, exactly(candidate), strict=True)
        bits = np.array([last_bit(a - b) for a, b in pairs])
        rests.append(bits)
        name = f"outputs less table {k}"
        found |= {f"{name}[{j}]:last bit": float(bits[j]) for j in chosen(len(bits))}
        found |= {f"{name}:{n}": v for n, v in sums("last bit", bits).items()}
    gap = np.clip(rests[0] - rests[1], -MOST_GAP, MOST_GAP)
    found |= {f"outputs less tables:{n}": v for n, v in sums("gap", gap).items()}
    # Entries of one kind are adjacent: squares of columns, for instance, have their own grid.
    parts = enumerate(np.array_split(gap, BLOCKS))
    return found | {f"outputs less tables[{k}]:gap": float(p.mean()) for k, p in parts if p.size}


def exactly(values):
    """Return integers as they are and other numbers as fractions, which are slower."""
    flat = np.ravel(np.asarray(values, dtype=object)).tolist()
    return [v if isinstance(v, int) else Fraction(v) for v in flat]


def last_bit(value):
    """Return k such that 2^k is the last nonzero bit of a dyadic fraction."""
    if not value:
        return NO_BIT
    top = value.numerator
    return float((top & -top).bit_length() - value.denominator.bit_length())


# The guess


def attack(first, second, claim):
    """Return what a feature shows that violates the claimed guarantee, or None.

    The features are those of independent fits to two neighbouring tables.
    """
    names = sorted({name for fit in (*first, *second) for name in fit})
    fits = (first, second)
    tables = [np.array([[fit.get(n, ABSENT) for n in names] for fit in t]) for t in fits]
    both = np.vstack(tables)
    moves = (both != both[0]).any(axis=0)
    names = [name for name, moved in zip(names, moves, strict=True) if moved]
    tables = [table[:, moves] for table in tables]
    if not names:
        return None
    seen = [np.delete(t, np.s_[::LEARNT], axis=0) for t in tables]
    tried = list(guesses(names, *(t[::LEARNT] for t in tables)))
    alarm = ALARM / len(tried)
    share = (1 + claim.delta_at(0.0)) / 2
    for feature, weights, event in tried:
        x, y = (event.holds(table @ weights) for table in seen)
        right, of = int(x.sum() + (~y).sum()), len(x) + len(y)
        allowed = max(int(binom.isf(alarm / 2, of, share)), int(np.ceil(of * share)))
        # The event, or its complement, is more likely under one table than allowed.
        bound = max(ratio_bound(*p, claim.delta, alarm / 4) for p in ((x, y), (~y, ~x)))
        if right > allowed or bound > claim.epsilon:
            return (
                f"{feature} shows which of two neighbours was fitted in {right} of {of} fits,"
                f" and {min(allowed, right)} are possible by chance"
            )
    return None


@dataclass(frozen=True)
class Event:
    """Event that a number is above a threshold, or equal to it, or the complement."""

    at: float
    equal: bool
    turned: bool

    def holds(self, values):
        """Return for each value whether the event occurs."""
        inside = values == self.at if self.equal else values > self.at
        return inside != self.turned


def guesses(names, x, y):
    """Yield names, weights of the features, and the event that indicates the first table."""
    scored = [best_events(x[:, k], y[:, k]) for k in range(len(names))]
    for kind, most in ((0, SINGLE), (1, RARE)):
        best = sorted(range(len(names)), key=lambda k: -scored[k][kind][0])[:most]
        for k in best:
            weights = np.zeros(len(names))
            weights[k] = 1.0
            yield names[k], weights, scored[k][kind][1]
    yield from sums_of_many(names, x, y)


def best_events(x, y):
    """Return the events with the greatest difference and the greatest ratio of frequencies."""
    levels, counts = np.unique(np.concatenate([x, y]), return_counts=True)
    steps = np.linspace(0, max(len(levels) - 2, 0), THRESHOLDS)
    at, common = levels[np.unique(steps.astype(int))], levels[np.argsort(-counts)[:VALUES]]
    places = np.concatenate([at, common])
    p, q = (
        np.concatenate([(v[:, None] > at).mean(axis=0), (v[:, None] == common).mean(axis=0)])
        for v in (x, y)
    )
    gap, spare = p - q, 0.5 / len(x)
    # The event may be missing under either table.
    ratio = np.maximum((p + spare) / (q + spare), (1 - q + spare) / (1 - p + spare))
    inverse = np.maximum((q + spare) / (p + spare), (1 - p + spare) / (1 - q + spare))
    found = []
    for score, turned in ((np.abs(gap), gap < 0), (np.maximum(ratio, inverse), inverse > ratio)):
        k = int(np.argmax(score))
        event = Event(float(places[k]), k >= len(at), bool(turned[k]))
        found.append((float(score[k]), event))
    return found[0], found[1]


def sums_of_many(names, x, y):
    """Yield weighted sums over features of one kind, which combine weak evidence."""
    groups = {}
    usual = (np.abs(np.vstack([x, y])) < UNUSUAL).all(axis=0)
    for k in np.flatnonzero(usual).tolist():
        groups.setdefault(re.sub(r"\[\d+\]|table \d", "[]", names[k]), []).append(k)
    wide = [name for name, members in groups.items() if len(members) >= FEW]
    for name in sorted(wide, key=lambda name: (not name.startswith("outputs"), name))[:SUMS]:
        own = groups[name]
        spread = np.sqrt((x[:, own].var(axis=0) + y[:, own].var(axis=0)) / 2)
        # Features with a small spread must not dominate.
        apart = (x[:, own].mean(axis=0) - y[:, own].mean(axis=0)) / (spread + spread.mean() / 4)
        weights = np.zeros(len(names))
        weights[own] = apart / (spread + spread.mean() / 4)
        middle = ((x @ weights).mean() + (y @ weights).mean()) / 2
        yield f"{name}, weighted,", weights, Event(float(middle), False, False)
