# needs: mbi==2.0.0 jax==0.10.2 jaxlib==0.10.2 scikit-learn==1.9.1 pandas==3.1.1
"""The runs of AIM (McKenna et al. 2022): scikit-learn's models on synthetic rows.

The graphical models are those of the authors' package mbi, which has no selection of marginals. The
workload and the constants of the selection are the defaults of the authors' code. Numbers have 32
bins of one width within their bounds, and synthetic numbers are the middles of bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import networkx as nx
import numpy as np
from mbi import (
    Dataset,
    Domain,
    LinearMeasurement,
    estimation,
    junction_tree,
    marginal_oracles,
)
from scipy.optimize import brentq, minimize_scalar
from scipy.special import softmax
from sklearn.linear_model import LinearRegression, LogisticRegression

from examples.benchmarks.peers.peer_protocol import is_classes, serve

BINS = 32
MOST_CELLS = 10_000
MEASURING = 0.9
TARGET = "target"
Marginal = tuple[str, ...]


@dataclass
class SyntheticRows:
    """A model of synthetic rows; ``blocks`` are the ranges of the columns of indicators.

    The graphical model has at most ``size`` megabytes: 80 in the authors' code.
    """

    model: Any
    epsilon: float
    delta: float
    bounds: Sequence[tuple[float, float]]
    target: tuple[float, float] | None
    blocks: Sequence[tuple[int, int]]
    seed: int
    size: float = 80.0
    iterations: int = 1000

    def fit(self, X: Any, y: Any) -> SyntheticRows:
        """Select and measure marginals, draw rows, and fit the model to them."""
        positions = {TARGET: binned(y, self.target) if self.target else y.astype(int)}
        sizes = {TARGET: BINS if self.target else int(y.max()) + 1}
        indicators = {k for start, stop in self.blocks for k in range(start, stop)}
        numbers = [k for k in range(X.shape[1]) if k not in indicators]
        for k in numbers:
            positions[f"x{k}"], sizes[f"x{k}"] = binned(X[:, k], self.bounds[k]), BINS
        for start, stop in self.blocks:
            # Position 0 has no indicator.
            place = X[:, start:stop] @ np.arange(1, stop - start + 1)
            positions[f"x{start}"], sizes[f"x{start}"] = place.astype(int), stop - start + 1
        rows = synthetic(Dataset(positions, Domain(sizes, list(sizes.values()))), self)
        drawn = np.zeros((len(rows[TARGET]), X.shape[1]))
        for k in numbers:
            drawn[:, k] = middles(rows[f"x{k}"], self.bounds[k])
        for start, stop in self.blocks:
            drawn[:, start:stop] = np.eye(stop - start + 1)[rows[f"x{start}"]][:, 1:]
        self.model.fit(drawn, middles(rows[TARGET], self.target) if self.target else rows[TARGET])
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)


def binned(values: Any, bounds: tuple[float, float]) -> Any:
    """Return the bins of numbers."""
    share = (values - bounds[0]) / (bounds[1] - bounds[0])
    return np.clip((share * BINS).astype(int), 0, BINS - 1)


def middles(bins: Any, bounds: tuple[float, float]) -> Any:
    """Return the middles of bins."""
    return bounds[0] + (bounds[1] - bounds[0]) * (np.asarray(bins) + 0.5) / BINS


def synthetic(data: Dataset, asked: SyntheticRows) -> Any:
    """Return columns of synthetic rows: AIM with all pairs as the workload."""
    rng = np.random.default_rng(asked.seed)
    np.random.seed(asked.seed)  # noqa: NPY002 - mbi draws rows from the global generator
    domain = data.domain
    pairs = [p for p in itertools.combinations(domain, 2) if domain.size(p) <= MOST_CELLS]
    singles = [(name,) for name in domain]
    weights = {m: sum(len({*m} & {*p}) for p in pairs) for m in [*singles, *pairs]}
    exact = {m: np.asarray(data.project(m).datavector()) for m in weights}
    rho = concentrated(asked.epsilon, asked.delta)
    rounds = 16 * len(singles)
    sigma, choosing = math.sqrt(rounds / (2 * MEASURING * rho)), math.sqrt(8 * 0.1 * rho / rounds)
    measured: list[LinearMeasurement] = []

    def measure(marginal: Marginal) -> None:
        noise = sigma * rng.standard_normal(len(exact[marginal]))
        measured.append(LinearMeasurement(exact[marginal] + noise, marginal, stddev=sigma))

    def estimated(model: Any = None) -> Any:
        return estimation.MirrorDescent().estimate(
            domain, measured, iters=asked.iterations, warm_start=model
        )

    for marginal in singles:
        measure(marginal)
    model, spent, is_last = estimated(), len(singles) / (2 * sigma**2), False
    while not is_last:
        if rho - spent < 2 * (1 / (2 * sigma**2) + choosing**2 / 8):
            left, is_last = rho - spent, True
            sigma, choosing = math.sqrt(1 / (2 * MEASURING * left)), math.sqrt(8 * 0.1 * left)
        spent += 1 / (2 * sigma**2) + choosing**2 / 8
        fitting = fitting_marginals(model, weights, asked.size * spent / rho)
        believed, bias = counts(model), math.sqrt(2 / math.pi) * sigma
        scores = [
            weights[m] * (np.abs(exact[m] - believed[m]).sum() - bias * len(exact[m]))
            for m in fitting
        ]
        steepness = choosing / (2 * max(weights[m] for m in fitting))
        chosen = fitting[rng.choice(len(fitting), p=softmax(steepness * np.array(scores)))]
        measure(chosen)
        # Each model is compiled anew. A process can map only so many programs.
        jax.clear_caches()
        model = estimated(model)
        change = np.abs(model.project(chosen).datavector() - believed[chosen]).sum()
        if change <= bias * len(exact[chosen]):
            sigma, choosing = sigma / 2, 2 * choosing
    return model.synthetic_data().to_dict()


def fitting_marginals(model: Any, weights: dict[Marginal, int], size: float) -> list[Marginal]:
    """Return the marginals with which the model is small enough, and those it has already."""
    cliques = list(model.cliques)
    return [
        m
        for m in weights
        if any({*m} <= {*own} for own in cliques)
        or junction_tree.hypothetical_model_size(model.domain, [*cliques, m]) <= size
    ]


def counts(model: Any) -> dict[Marginal, Any]:
    """Return the counts of all attributes and pairs: from clique to clique along the tree.

    For many pairs this is faster than an elimination of variables for each.
    """
    names = list(model.domain)
    tree, _ = junction_tree.make_junction_tree(model.domain, list(model.cliques))
    # Parts that are independent have no attribute in common: they are joined by an edge.
    parts = [next(iter(part)) for part in nx.connected_components(tree)]
    tree.add_edges_from(itertools.pairwise(parts))
    beliefs = marginal_oracles.message_passing_stable(
        model.potentials.expand(list(tree.nodes)), model.total
    )
    tables = {own: np.asarray(beliefs.project(own).transpose(own).values) for own in tree.nodes}
    axes = {own: [names.index(name) for name in own] for own in tree.nodes}
    first, found = len(names), {}
    for k, name in enumerate(names):
        root = next(own for own in tree.nodes if name in own)
        same = np.eye(model.domain[name])
        joint = {root: np.einsum(same, [first, k], tables[root], axes[root], [first, *axes[root]])}
        for one, other in nx.bfs_edges(tree, root):
            both = [j for j in axes[one] if j in axes[other]]
            message = np.einsum(joint[one], [first, *axes[one]], [first, *both])
            share = message / np.maximum(message.sum(axis=0), 1e-30)
            joint[other] = np.einsum(
                share, [first, *both], tables[other], axes[other], [first, *axes[other]]
            )
        found[name,] = np.einsum(joint[root], [first, *axes[root]], [first])
        for own, table in joint.items():
            for j in axes[own]:
                if j > k:
                    pair = np.einsum(table, [first, *axes[own]], [first, j])
                    found[name, names[j]] = pair.ravel()
    return found


def concentrated(epsilon: float, delta: float) -> float:
    """Return the greatest rho for which rho-zCDP implies (epsilon, delta)."""

    def surplus(rho: float) -> float:
        def log_delta(log_excess: float) -> float:
            order = 1 + math.exp(log_excess)
            loss = (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order)
            return loss - log_excess

        best = minimize_scalar(log_delta, bounds=(-5, 15), method="bounded")
        return float(best.fun - math.log(delta))

    return float(brentq(surplus, 1e-12, epsilon + 1))


def model_of(asked: dict[str, Any], epsilon: float, seed: int) -> SyntheticRows:
    """Return a logistic or a linear model of synthetic rows."""
    is_class = is_classes(asked)
    return SyntheticRows(
        LogisticRegression(max_iter=2000) if is_class else LinearRegression(),
        epsilon,
        asked["delta"],
        asked["bounds"],
        None if is_class else asked["target"],
        asked["blocks"],
        seed,
        asked["size"],
    )


if __name__ == "__main__":
    serve(model_of)
