"""Deterministic analysis: same input, same output; no network, no model, no clock in a result."""
