"""Parts of all estimators: the base class, encoded columns and exact sums."""
