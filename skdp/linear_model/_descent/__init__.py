"""Coordinate descent: plans, rules, records and the algorithm."""
