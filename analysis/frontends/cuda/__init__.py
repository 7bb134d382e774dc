"""The CUDA front end: repositories to kernels.

Rooms: ``text`` (bytes to trees and tables), ``semantics`` (what names and types mean), ``lower`` (trees to IR),
``library`` (CUDA's and C++'s own functions and types), ``asm`` (inline PTX), ``passes`` (over the finished IR).
"""

from prelaunch.analysis.frontends.cuda.lower.context import Limits
from prelaunch.analysis.frontends.cuda.lower.kernel import lower_kernel
from prelaunch.analysis.frontends.cuda.text.project import load_project, project_from_text

__all__ = ["Limits", "load_project", "lower_kernel", "project_from_text"]
