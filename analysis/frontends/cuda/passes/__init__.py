"""Passes over the finished IR; they never look at the text.

Guarantees: every pass keeps the meaning and the spans of what it rewrites, and runs in time near linear in the kernel.
"""
