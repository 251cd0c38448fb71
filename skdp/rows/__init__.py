"""Where the rows of a fit are, and sums over blocks of them.

An algorithm reads its data by ``rows.sum(part)``: ``part`` is a function from a block of encoded
rows to statistics, which are added over all blocks. ``rows.keep(build)`` keeps what ``build``
makes of each block where the block is.
"""

from skdp.rows.memory import Block, Kept, KeptBlocks, MemoryRows, Rows

__all__ = ["Block", "Kept", "KeptBlocks", "MemoryRows", "Rows"]
