"""The sensitivity of a statistic: a norm ball around the differences of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.typing import ArrayLike

from skdp._first_use import check_ball
from skdp.domain import Domain
from skdp.geometry.conic import check_body, compiled, facet_directions
from skdp.geometry.hull import Hull, polytope_around
from skdp.mechanisms.statistics import ball_of_maps, quadratic_of, two_sided
from skdp.trusted.ball import Change
from skdp.trusted.checks import check_choice
from skdp.trusted.statement import NEIGHBORS


class Sensitivity(Change):
    """A bound on the differences of neighbours D, D': f(D) - f(D') has gauge at most ``radius``.

    Parameters
    ----------
    ball : NormBall
        Unit ball of the norm in which differences are measured; the best choice is the hull of the
        differences (Awan & Slavkovic 2020, Definition 2.7). A ball with ``greatest_square``, such
        as a ``MomentBall``, is valid only for certain differences, not for all of its points.
    radius : float > 0, units of the released value
        Greatest gauge of a difference.
    neighbors : {"replace_one", "add_remove"}
        Neighbouring relation of the differences.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> round(Sensitivity(LpBall(3, p=2), radius=2.0).radius_in(LpBall(3, p=1)), 3)
    3.464
    """

    def __post_init__(self) -> None:
        check_ball(self.ball)
        super().__post_init__()

    @classmethod
    def from_points(cls, points: ArrayLike, *, neighbors: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of a sum of one-record statistics with finitely many values.

        Parameters
        ----------
        points : array-like of shape (n, dim), units of the released value
            All possible values of the statistic of one record, or the corners of their hull.
        neighbors : {"replace_one", "add_remove"}
            Replacing a record changes the sum by the difference of two points. Adding or removing a
            record changes it by a point or its negative.

        Examples
        --------
        >>> Sensitivity.from_points([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).ball.gauge([1.0, -1.0])
        array(1.)
        """
        check_choice("neighbors", neighbors, tuple(NEIGHBORS))
        make = Hull.difference_of if neighbors == "replace_one" else Hull.from_points
        return cls(make(points), neighbors=neighbors)

    @classmethod
    def from_constraints(
        cls,
        variable: object,
        constraints: Sequence[object],
        *,
        neighbors: str = "replace_one",
        directions: ArrayLike | int | None = None,
    ) -> Sensitivity:
        """Return the sensitivity of a sum of one-record statistics in a convex set.

        Parameters
        ----------
        variable : cvxpy.Variable of shape (dim,)
        constraints : list of cvxpy constraints
            The statistic of every record satisfies them. The set need not be symmetric. Other
            variables are allowed; the set is then a projection.
        neighbors : {"replace_one", "add_remove"}
        directions : int, array-like of shape (m, dim), or None
            Normals of a polytope around the differences, or their number, the axes included. None
            uses the facets of the hull if the set is a small polytope.

        Examples
        --------
        >>> import cvxpy as cp
        >>> v = cp.Variable(2)  # each record is a unit vector with entries >= 0
        >>> sensitivity = Sensitivity.from_constraints(v, [v >= 0, cp.norm(v, 2) <= 1])
        >>> sensitivity.ball.support([[1.0, 0.0], [1.0, 1.0]]).round(3)
        array([1.   , 1.414])
        """
        check_choice("neighbors", neighbors, tuple(NEIGHBORS))
        differences = neighbors == "replace_one"
        cone_set = compiled(variable, constraints)
        check_body(cone_set, differences)
        if directions is None:
            directions = facet_directions(variable, constraints, differences)
        support = two_sided(cone_set.bound, differences)
        return cls(polytope_around(support, cone_set.dim, directions), neighbors=neighbors)

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        domain: Domain,
        *,
        neighbors: str = "replace_one",
        directions: ArrayLike | int | None = None,
    ) -> Sensitivity:
        """Return the sensitivity of the sum over all records of a function of one record.

        Parameters
        ----------
        function : callable
            ``function(x)``, or ``function(x, y)`` if the domain has a target, returns the
            statistic of one encoded record, dim numbers in one array. It must be a polynomial
            of degree at most two in the numbers of the record, written with +, -, *, / by numbers,
            ** 2 and numpy's products and sums. Any operation on indicators and labels is allowed.
        domain : Domain
            Domain to which records are clipped. Numbers and numeric targets are encoded in
            [-1, 1], levels as indicators, and labels as they are declared.
        neighbors : {"replace_one", "add_remove"}
        directions : int, array-like of shape (m, dim), or None
            Normals of the polytope around the differences, or their number, the axes included.

        Returns
        -------
        Sensitivity
            Its ball contains every difference, including rounding errors of the statistic. The ball
            is the hull of the differences if the function is affine and the hull is small.
            Otherwise it is a polytope around the hull, or a box in more than eight dimensions.

        Raises
        ------
        ValueError
            If the function is not such a polynomial, or is constant in some direction.

        Notes
        -----
        The function is not called with records, but with objects that behave like numbers and keep
        its coefficients exactly. It must not depend on the type of its arguments.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp.domain import Domain
        >>> domain = Domain({"age": (17, 90)})
        >>> found = Sensitivity.of(lambda x: np.append(x, 2 * x**2), domain)
        >>> found.ball.bounding_box().round(6)
        array([2., 2.])
        """
        check_choice("neighbors", neighbors, tuple(NEIGHBORS))
        maps = quadratic_of(function, domain)
        return cls(ball_of_maps(maps, neighbors == "replace_one", directions), neighbors=neighbors)
