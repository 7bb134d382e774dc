"""Functions and types of CUDA and of C++ that have a meaning of their own.

Guarantees: each is modelled by the published reference named in its file; a member or overload that is not modelled
is ``Opaque`` with its name, and touches memory or control wherever the real one may.
"""
