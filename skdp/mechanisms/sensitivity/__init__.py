"""The sensitivity of a statistic: a ball of differences, and the gauge of one ball in another."""
