"""The cost of a grid search: every fit of the search is charged to one ledger.

A pipeline that encodes a DataFrame by public bounds takes part in scikit-learn's search as any
other. Fits in two processes share one ledger. The search spends several times the epsilon of the
guarantee of its best model.

What it does not show: a private choice. The scores are computed from private labels without noise,
and no ledger counts them. The last words of the output name alternatives.
"""

from collections import Counter

import numpy as np
from first_private_model import EARNS_MUCH, make_people
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from skdp import DPLogisticRegression, Ledger

WARNING = """\
Choosing by looking at scores on private data is itself a release: the choice of
epsilon, and every score above, depends on the private labels and has no noise of
its own. The ledger counts the fits and not the choice. These people are made up,
so nobody is harmed. With real ones, choose epsilon by what may be promised, before
the data is looked at; try the rest on public or made-up data like these, or have
skdp.model_selection.PrivateSearchCV choose it within one budget."""


def make_search(ledger: Ledger) -> GridSearchCV:
    """Return a search over epsilon whose fits all charge ``ledger``, copies included."""
    model = DPLogisticRegression(domain=EARNS_MUCH.encoded, ledger=ledger)
    pipeline = make_pipeline(EARNS_MUCH.encoder(), model)
    grid = {"dplogisticregression__epsilon": [0.1, 1, 10]}
    # Folds by position. By default they depend on the labels: then a changed label moves other
    # records to other folds, and the guarantees of the fits say nothing about the whole table.
    return GridSearchCV(pipeline, grid, cv=KFold(3), n_jobs=2)


def show_scores(search: GridSearchCV) -> None:
    """Print the mean accuracy over the folds."""
    found = search.cv_results_
    epsilons = found["param_dplogisticregression__epsilon"]
    print("epsilon   accuracy (mean of 3 folds)")
    for epsilon, score in zip(epsilons, found["mean_test_score"], strict=True):
        print(f"{epsilon:7g}   {score:.3f}")


def show_cost(ledger: Ledger) -> None:
    """Print what the ledger recorded, the final fit on all rows included."""
    print("\nepsilon   fits   cost")
    for epsilon, fits in sorted(Counter(entry.epsilon for entry in ledger.entries).items()):
        print(f"{epsilon:7g}   {fits:4d}   {epsilon * fits:4.1f}")
    print(f"  total   {len(ledger.entries):4d}   {ledger.spent.epsilon:4.1f}")


def main() -> None:
    """Search, and tell what it cost."""
    people, income = make_people(3_000, seed=0)
    ledger = Ledger(epsilon=50.0)
    search = make_search(ledger).fit(people, np.where(income > 40_000, "yes", "no"))
    show_scores(search)
    show_cost(ledger)
    winner = search.best_estimator_[-1].guarantee_
    before = ledger.spent.epsilon - winner.epsilon
    print(f"\nThe winner's own guarantee says epsilon = {winner.epsilon:g}. That is for its last")
    print(f"fit alone: the search that found it cost {before:.1f} before.")
    print(f"\n{WARNING}")


if __name__ == "__main__":
    main()
