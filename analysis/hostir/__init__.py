"""Host code: a small IR of host functions, executed abstractly to find launches."""
