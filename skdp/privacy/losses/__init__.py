"""Privacy losses of one release: the laws of log-likelihood ratios."""
