"""Statements and expressions of the syntax tree to IR, with C++'s types, promotions and order of evaluation.

Guarantees: ``kernel.lower_kernel`` never raises; every statement of the text is either modelled or an ``Opaque`` with
its reason and what it touches; every IR node carries the span of the text it stands for; budgets are counted.
"""
