"""A second, independent reading of kernels: compiler-made PTX, parsed and interpreted lane by lane.

Shares nothing with the front end and the interpreter but the record of events (``analysis.trace``), so that an
error in the one is not repeated in the other. ``analysis.witness_ptx`` is the entry.
"""
