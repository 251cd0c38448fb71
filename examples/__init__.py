"""Examples and measuring commands. Start these from the root: ``python -m examples.benchmarks...``.

A regular package, so that the commands of one checkout never import those of another one.
"""
