"""Privately estimated centres and scales of columns, for all estimators."""
