"""Public facts of a fit: a replacement as a removal and an addition."""

import numpy as np
import pytest
from inner_fits import Task, removed_and_added


def delta_between(p, q, epsilon):
    """The least delta of two laws on few outcomes, from the definition."""
    return np.maximum(p - np.exp(epsilon) * q, 0.0).sum()


def three_answers(epsilon):
    """A geometric count of 0, 1 and 2 records, clipped to [0, 2]: adjacent laws reach epsilon."""
    a = np.exp(-epsilon)
    return np.array([[1, a - a * a, a * a], [a, 1 - a, a], [a * a, a - a * a, 1]]) / (1 + a)


def three_revelations(epsilon, delta):
    """An event that each further record makes as likely as epsilon and delta allow."""
    event = np.array([0.0, delta, delta * (1 + np.exp(epsilon))])
    return np.stack([event, 1 - event], axis=1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_a_removal_and_an_addition_are_a_replacement(epsilon, delta):
    """Releases that are as bad as allowed for each step: both steps reach epsilon and delta."""
    half = removed_and_added(Task(None, n=50, epsilon=epsilon, delta=delta))
    assert (half.neighbors, half.n, half.n_public) == ("add_remove", None, 50)
    answers, events = three_answers(half.epsilon), three_revelations(half.epsilon, half.delta)
    for k, j in ((0, 1), (1, 0), (1, 2), (2, 1)):
        assert delta_between(answers[k], answers[j], half.epsilon) < 1e-15
        assert delta_between(events[k], events[j], half.epsilon) <= half.delta * (1 + 1e-9)
    for k, j in ((0, 2), (2, 0)):
        assert delta_between(answers[k], answers[j], epsilon) < 1e-15
        assert delta_between(answers[k], answers[j], 0.99 * epsilon) > 1e-4
        assert delta_between(events[k], events[j], epsilon) <= delta
    assert delta_between(events[2], events[0], epsilon) > 0.99 * delta
