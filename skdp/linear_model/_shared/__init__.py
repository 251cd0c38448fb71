"""What all estimators share: the base class, validation, encoded columns and exact sums."""
