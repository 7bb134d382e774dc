"""Inline PTX: operands and constraints, and what each instruction does.

Guarantees: instructions run in the order of the text; one that is not modelled defines its outputs with unknown values
and touches memory and control unless it is known to stay in registers.
"""
