"""What names and types mean: scopes, records and their layout, templates, overloads, constant expressions.

Guarantees: sizes and alignments are those of the CUDA ABI on 64-bit targets; a name is looked up as C++ does it, scopes
first; what is not known is said (a note, an opaque type), never guessed in silence.
"""
