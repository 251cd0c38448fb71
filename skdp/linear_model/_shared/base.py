"""What the private linear models share: validate, plan, charge, release, decode."""

from __future__ import annotations

from dataclasses import is_dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp._checks import (
    check_choice,
    check_count,
    check_epsilon,
    check_interval,
    fail,
)
from skdp._identity import one_call
from skdp.domain import Domain
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.predict import row_products
from skdp.linear_model.validation import check_ledger, check_table, spent_note
from skdp.privacy import Guarantee
from skdp.privacy.guarantee import NEIGHBORS
from skdp.randomness import as_generator, is_cryptographic


class PrivateLinearModel(BaseEstimator):
    """Base of the private linear models: one way through a fit, in one order.

    A model says what it reads of y (``_targets``), what it will release and with which noise
    (``_plan``, from public things only), what it computes from the data (``_prepare``), the
    release itself (``_release``) and what it makes of it (``_keep``). What is wrong with the data
    is found by ``_prepare``: later readings of it raise nothing, whatever has become of it
    (`skdp.domain.layout.read_once`). A plan has ``noise``,
    ``mechanism``, a sentence, and ``losses``, what is known of its privacy beyond epsilon.
    """

    def _check_parameters(self):
        check_epsilon(self.epsilon, "Smaller is more private; 1.0 is common.")
        check_interval("delta", self.delta, 0.0, 1.0, closed="left")
        check_choice("neighbors", self.neighbors, tuple(NEIGHBORS))
        if self.n_public is not None:
            check_count("n_public", self.n_public)
        # By type: a subclass may encode rows in another way.
        if self.domain is not None and type(self.domain) is not Domain:
            raise fail("domain", "be a Domain or None", type(self.domain))
        check_ledger("ledger", self.ledger)

    def _public_domain(self, n_columns):
        """Return the declared domain, or [-1, 1] for every column."""
        domain = self.domain
        if domain is None:
            return Domain.unit_box(n_columns)
        if domain.n_columns != n_columns:
            remedy = "Drop the other columns, or declare them in the Domain."
            raise fail("X", f"have the domain's {domain.n_columns} columns", n_columns, remedy)
        return domain

    def _fit(self, X, y, unsupported):
        """Validate, plan, charge, release: whatever raises before the charge costs nothing."""
        # A caller may have asked numpy to tell of underflow: that would tell of the data.
        with np.errstate(all="ignore"), one_call():
            with spent_note() as spent:
                _refuse(unsupported)
                self._check_parameters()
                X = check_table(self, X, self.domain, reset=True)
                n = len(X)
                targets, public = self._targets(y, n)
                design = Design(self._public_domain(self.n_features_in_), bool(self.fit_intercept))
                plan = self._plan(design, n, len(targets))
                plan.check_published()
                guarantee = self._guarantee(plan)
                data = self._prepare(plan, design, X, targets, n)
                rng = as_generator(self.random_state)
                if self.ledger is not None:
                    self.ledger.spend(guarantee, note=f"{type(self).__name__}.fit")
                spent.append(guarantee)
                released = self._release(plan, data, rng)
            # Only now: a fit that fails leaves the model of an earlier one as it was.
            self._design, self.guarantee_ = design, guarantee
            for name, value in public.items():
                setattr(self, name, value)
            self.noise_ = _promising(plan.noise, guarantee.void_because)
            # One minimisation: how many steps a solver took depends on the data.
            self.n_iter_ = 1
            # A solver that does not converge raises: a model that exists has converged.
            self.converged_ = True
            self._keep(plan, released)
            return self

    def _guarantee(self, plan):
        seeded = "the noise came from random_state and not from the operating system"
        return Guarantee(
            float(self.epsilon),
            self._delta_of(plan),
            neighbors=self.neighbors,
            mechanism=plan.mechanism,
            assumptions=self._assumptions(),
            void_because=() if is_cryptographic(self.random_state) else (seeded,),
            losses=plan.losses,
        )

    def _delta_of(self, plan):
        """Return the delta that the plan makes use of."""
        return 0.0

    def _assumptions(self):
        return (
            "the domain, the labels and all parameters were chosen without the data",
            "one record is one row of X with its target",
            "running time, memory and errors are not observed",
        )

    @np.errstate(all="ignore")
    def _predictor(self, X):
        """Return the linear predictor of the encoded and clipped rows, (n, models).

        That of a row does not depend on the other rows, not in its last bit.
        """
        check_is_fitted(self, "coef_")  # a fit that failed leaves other attributes
        encoded = self._encode(check_table(self, X, self._design.domain, reset=False))
        return row_products(encoded, self._encoded_coef) + self._encoded_intercept

    def _encode(self, X):
        """Return the rows that coefficients are for, (n, n_encoded)."""
        return self._design.domain.encode(X)

    def _decode(self, theta):
        """Keep the coefficients of the encoded columns; return them for further decoding."""
        pairs = [self._design.coefficients(t) for t in theta]
        self._encoded_coef = np.array([coef for coef, _ in pairs])
        self._encoded_intercept = np.array([intercept for _, intercept in pairs])
        return self._encoded_coef, self._encoded_intercept

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.sparse = False
        tags.target_tags.required = True
        return tags


def _refuse(unsupported):
    """Raise for fit parameters that the proof does not cover."""
    if unsupported:
        names = ", ".join(sorted(unsupported))
        raise TypeError(
            f"fit does not support {names}: the proof gives every record the same influence."
            " Leave it out."
        )


def _promising(noise, void_because):
    """Return the noise with a guarantee that says why it is void, if it is."""
    if not (void_because and is_dataclass(noise)):
        return noise
    promise = replace(noise.guarantee, void_because=void_because)  # type: ignore[union-attr]
    return replace(noise, guarantee=promise)  # type: ignore[type-var]
