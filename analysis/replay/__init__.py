"""Replay: run a kernel under launches the code contains and watch for a problem.

``trials`` chooses launches and arguments, ``runs`` runs them block by block within counted budgets, ``cases`` pairs
each launch of a kernel with its uniformity and its runs.
"""

from prelaunch.analysis.replay.cases import Case, cases, key_text, launch_name, readable
from prelaunch.analysis.replay.runs import Observation, Replay, Run, spread

__all__ = ["Case", "Observation", "Replay", "Run", "cases", "key_text", "launch_name", "readable", "spread"]
