"""A kernel under each of its launches, as rules pose their obligations, and words for launches and expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.interpret import prepare
from prelaunch.analysis.interpreter.program import Program
from prelaunch.analysis.kernel import Binary, Cast, Const, Expr, Kernel, Pure
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay.runs import Replay
from prelaunch.analysis.replay.slice import control_slice
from prelaunch.analysis.show import show_expr
from prelaunch.analysis.source import Span
from prelaunch.analysis.uniformity import Uniformity, uniformity
from prelaunch.analysis.uniformity.levels import Dims


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel under one of its launches, as a rule poses its obligations on it. ``name`` labels the judgement.

    ``kernel`` is the slice of the kernel that its control depends on, which ``uniform`` is about and ``replay`` runs:
    every barrier, warp exchange and exit is in it.
    """

    facts: Facts
    launch: Launch | None
    name: str
    kernel: Kernel
    uniform: Uniformity
    replay: Replay


def cases(facts: Facts) -> tuple[Case, ...]:
    """One per launch, or one without; computed once per ``facts``."""
    known = facts.cache.get("replay.cases")
    if not isinstance(known, tuple):
        launches: tuple[Launch | None, ...] = facts.launches or (None,)
        uniform: dict[object, Uniformity] = {}
        kernel = control_slice(facts.kernel)
        program = prepare(kernel)
        known = tuple(_case(facts, launch, kernel, program, uniform) for launch in launches)
        facts.cache["replay.cases"] = known
    return known


def _case(
    facts: Facts, launch: Launch | None, kernel: Kernel, program: Program, uniform: dict[object, Uniformity]
) -> Case:
    """``uniform`` holds what was found for launches that tell uniformity the same."""
    key: object = None
    if launch is not None:
        numbers = tuple(arg if isinstance(arg, Const) else None for arg in launch.args)
        overlaps = tuple((r.argument, r.other) for r in launch.relations if r.kind == "overlaps")
        key = (Dims.of(facts.kernel, launch), numbers, overlaps)
    if key not in uniform:
        uniform[key] = uniformity(kernel, launch)
    name = launch_name(launch) if launch is not None else ""
    return Case(facts, launch, name, kernel, uniform[key], Replay(facts, launch, program))


def launch_name(launch: Launch) -> str:
    """``<<<(7, 1, 1), (128, 1, 1)>>> at main.cu:12``."""
    grid, block = (", ".join(_dim(expr) for expr in dims) for dims in (launch.grid, launch.block))
    return f"<<<({grid}), ({block})>>> at {launch.span.file}:{launch.span.line}"


def _dim(expr: Expr) -> str:
    return str(int(expr.value)) if isinstance(expr, Const) else readable(expr)


def readable(expr: Expr) -> str:
    """An expression for a message: without conversions and variable numbers, at most 40 characters."""
    text = re.sub(r"%\d+", "?", re.sub(r"#\d+", "", show_expr(_bare(expr))))
    return text if len(text) <= 40 else text[:39] + "…"


def _bare(expr: Expr) -> Expr:
    """Without conversions, for reading."""
    match expr:
        case Cast(operand=a):
            return _bare(a)
        case Binary(left=a, right=b):
            return replace(expr, left=_bare(a), right=_bare(b))
        case Pure(args=args):
            return replace(expr, args=tuple(_bare(a) for a in args))
    return expr


def key_text(facts: Facts, *spans: Span) -> str:
    """Source text of sites, for a finding's key."""
    return " | ".join(dict.fromkeys(facts.text(span) for span in spans))
