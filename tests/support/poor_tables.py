"""Tables that are valid and poor: few rows, constant columns, cells outside the domain."""

import warnings

import numpy as np

from skdp import Domain

TABLES = {
    "one record": (Domain.unit_box(3), [[0.1, 0.2, 0.3]]),
    "constant columns": (Domain.unit_box(3), [[0.5, -1.0, 0.0]] * 20),
    "all outside the domain": (Domain.unit_box(2), [[1e300, -1e300]] * 5),
    "wide": (Domain.unit_box(40), np.linspace(-1, 1, 320).reshape(8, 40).tolist()),
    "a ball": (Domain.l2_ball(3, 2.5), [[9.0, 0.0, 0.0], [0.1, 0.1, -0.1]] * 4),
    "one level": (Domain({"a": ["x"], "b": (0, 2), "c": ["u", "v"]}), [["x", 1.0, "v"]] * 6),
    "levels only": (Domain({"a": list("xyz"), "c": ["u", "v"]}), [["z", "v"], ["x", "u"]] * 3),
    "a tiny range": (Domain.box([1e-300, 1e20], [3e-300, 2e20]), [[2e-300, 1.5e20]] * 4),
}


def both(classifier, regressor, domain, **parameters):
    """A classifier and a regressor on the same columns, with their targets' ends."""
    labelled = classifier(classes=["no", "yes"], domain=domain, **parameters)
    columns = domain._columns, domain._names
    bounded = Domain._build(*columns, Domain.unit_box(1, (-5.0, 5.0))._target, domain.radius)
    return [(labelled, ["no", "yes"]), (regressor(domain=bounded, **parameters), [-5.0, 5.0])]


def fit_quietly(model, X, y):
    """Fit with every warning an error; what is found is finite, also after each pass.

    But for those of budgets that are too great or too small for any use.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "epsilon=.* protects|Expect a model")
        model.fit(X, y)
    passes = getattr(model, "history_", ())
    found = [part for p in passes for part in (p.coef, p.intercept)]
    if not passes:
        found.append(model.noise_.covariance())
    assert all(np.isfinite(own).all() for own in (model.coef_, model.intercept_, *found))
    return model
