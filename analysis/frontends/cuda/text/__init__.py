"""From bytes to trees and tables: lexing, conditions, macros, parsing, the declarations of every file.

Guarantees: offsets are those of the file on disk, whatever is rewritten before parsing; nothing is executed; caps on
size, depth and macro expansion end in a reason, never in a crash. Knows nothing of types or of the IR.
"""
