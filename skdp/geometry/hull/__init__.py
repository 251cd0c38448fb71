"""Norm balls built from points, half-spaces, convex constraints and differences."""

from skdp.geometry.hull import Hull, PolytopeHull, polytope_around

__all__ = ["Hull", "PolytopeHull", "polytope_around"]
