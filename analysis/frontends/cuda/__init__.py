"""The CUDA front end: repositories to kernels."""

from prelaunch.analysis.frontends.cuda.context import Limits
from prelaunch.analysis.frontends.cuda.lower import lower_kernel
from prelaunch.analysis.frontends.cuda.project import load_project, project_from_text

__all__ = ["Limits", "load_project", "lower_kernel", "project_from_text"]
