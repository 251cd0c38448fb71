"""The worst that an analyst can make of what a divided ledger allows, computed."""

import math

import numpy as np
from scipy.integrate import trapezoid
from scipy.stats import norm

from skdp.privacy import BudgetExceeded, Guarantee, ledger_rules
from skdp.privacy.conversions import gaussian_delta, gaussian_epsilon
from skdp.privacy.ledger_rules import Entry
from skdp.trusted.losses import GaussianLoss, PairLoss

EPSILON, DELTA = 1.0, 1e-5
# Of delta, in a ledger that is divided.
SUMS = ledger_rules._BASIC_SHARE
LEAKS, NOISE = ledger_rules._INFINITY_SHARE, ledger_rules._GAUSSIAN_SHARE


def gaussian(mu, delta=1e-6):
    return Guarantee(gaussian_epsilon(mu, delta), delta, losses=((GaussianLoss(mu), 1),))


def dear_gaussian(mu):
    """Stated at EPSILON, for the least delta: as sums count it, all of their delta can be used."""
    return Guarantee(EPSILON, gaussian_delta(mu, EPSILON), losses=((GaussianLoss(mu), 1),))


def entry_of(guarantee):
    return Entry(guarantee.epsilon, guarantee.delta, "", "", "", True, guarantee.losses)


def fits(ledger, *guarantees):
    try:
        for guarantee in guarantees:
            ledger.spend(guarantee)
    except BudgetExceeded:
        return False
    return True


def hockey_stick(mu, epsilon):
    """The Gaussian profile at an array of real epsilons."""
    certain = np.maximum(-np.expm1(epsilon), 0.0)
    return np.maximum(np.exp(GaussianLoss(mu).log_delta(epsilon)), certain) if mu else certain


def joint(mu, pure, leak=0.0):
    """The profile of Gaussian noise together with the worst (pure, leak)-private release."""
    yes = 1 / (1 + math.exp(-pure))
    return lambda epsilon: (
        leak
        + (1 - leak)
        * (yes * hockey_stick(mu, epsilon - pure) + (1 - yes) * hockey_stick(mu, epsilon + pure))
    )


def after_a_gaussian(mu, continuations):
    """The delta at EPSILON of an analyst who sees a Gaussian release, then takes the worst of
    the continuations for the loss that came out: E max_k V_k(EPSILON - L), L ~ N(mu^2/2, mu^2).

    By the trapezoidal rule, whose error here is below 1e-6 of the value.
    """
    z = np.linspace(-9, 9, 36_001)
    left = EPSILON - mu * mu / 2 - mu * z
    worst = np.max([value(left) for value in continuations], axis=0)
    return trapezoid(norm.pdf(z) * worst, z)


def greatest(passes, high):
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def best(*values):
    """The greatest of several profiles: what an analyst has who chooses in view of the loss."""
    return lambda epsilon: np.max([value(epsilon) for value in values], axis=0)


def then(pure, leak, value):
    """The profile of the worst (pure, leak)-private release, and then ``value``."""
    yes = 1 / (1 + math.exp(-pure))
    return lambda epsilon: (
        leak
        + (1 - leak) * (yes * value(epsilon - pure) + (1 - yes) * value(np.asarray(epsilon + pure)))
    )


def all_at_once(rule, spends):
    """The profiles of what the rule allows next, by whichever of its parts."""
    return [*by_sums(rule, spends), *beside_sums(rule, spends)]


def by_sums(rule, spends):
    """The one that dominates all that the sums allow, if they still do."""
    basic = rule.after(*spends).basic
    if not basic.fits():
        return []
    left = basic.remaining()
    return [joint(0.0, left.epsilon, left.delta)]


def beside_sums(rule, spends):
    """Any leak, beside every kind of the rest; stated so high that sums never take it."""
    if rule.after(*spends).infinity_mass_left() < 0:
        return []
    leak = greatest(lambda leak: allows(rule, spends, 0.0, 0.0, leak), 1e-4)
    values = []
    for pure in (0.0, 0.25, 0.5, 0.75):
        more = (pure - sum(spend.counted.pure for spend in spends)) * (1 - 1e-9)
        if more >= 0 and allows(rule, spends, more, 0.0, leak):
            most = greatest(lambda square, more=more: allows(rule, spends, more, square, leak), 0.1)
            values.append(joint(math.sqrt(most), more, leak))
    alone = greatest(lambda pure: allows(rule, spends, pure, 0.0, leak), 1.0)
    return [*values, joint(0.0, alone, leak)]


def allows(rule, spends, pure, square, leak):
    return rule.after(*spends, planned(pure, square, leak)).fits()


def pair(pure, leak):
    """A spend of which no more is known than its epsilon and delta."""
    return Entry(pure, leak, "", "", "", True, ((PairLoss(pure, leak), 1),))


def planned(pure, square, leak=0.0):
    parts = [(PairLoss(pure, leak), 1)] if pure or leak else []
    parts += [(GaussianLoss(math.sqrt(square)), 1)] if square else []
    return Entry(2.0, 0.5, "", "", "", True, tuple(parts))
