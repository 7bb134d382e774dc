"""The review as one JSON object, ``prelaunch.review/1``; ``review.schema.json`` beside this file is its schema.

Deterministic to the byte: no time, no path of this machine, no count of jobs. Everything is escaped to ASCII, so the
text is safe to print; nothing in it is meant to be shown without ``render_untrusted``.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from prelaunch.analysis.finding import Conditional, Finding, Judgement, Refuted, Unknown, Witness, verdict_name
from prelaunch.analysis.judge import Gap
from prelaunch.analysis.kernel import Const
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.review import KernelReport, Review
from prelaunch.analysis.show import show_expr

SCHEMA = "prelaunch.review/1"


def render(review: Review, version: str) -> str:
    """The report, ending in a newline."""
    return json.dumps(document(review, version), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) every document meets."""
    text = files("prelaunch.analysis.reports").joinpath("review.schema.json").read_text("utf-8")
    return dict(json.loads(text))


def document(review: Review, version: str) -> dict[str, Any]:
    discovery = review.discovery
    return {
        "schema": SCHEMA,
        "tool": {"name": "prelaunch", "version": version, "rules": {rule.id: rule.version for rule in review.rules}},
        "target": {
            "name": discovery.root.name,
            "paths": list(discovery.asked),
            "revision": discovery.revision,
            "files": list(discovery.files),
            "skipped": [{"path": item.path, "reason": item.reason} for item in discovery.skipped],
        },
        "coverage": {
            "kernels": len(review.kernels),
            "analysed": review.analysed,
            "unknown": [_gap(gap) for gap in review.all_gaps()],
        },
        "kernels": [_kernel(kernel) for kernel in review.kernels],
        "findings": [_finding(finding, number) for number, finding in enumerate(review.findings, 1)],
        "suppressed": [
            {"fingerprint": item.finding.fingerprint, "rule": item.finding.rule, "file": item.finding.span.file,
             "line": item.finding.span.line, "reason": item.reason}
            for item in review.suppressed
        ],
        "notes": [{"file": note.file, "line": note.line, "message": note.message} for note in review.notes],
        "verdicts": [
            *(_verdict(item, kernel.file) for kernel in review.kernels for item in kernel.judgements),
            *(_verdict(item, "") for item in review.judgements),
        ],
    }  # fmt: skip


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "kernel": gap.kernel, "file": gap.file, "line": gap.line, "rule": gap.rule, "launch": gap.launch,
        "reason": gap.reason,
    }  # fmt: skip


def _kernel(kernel: KernelReport) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "file": kernel.file,
        "line": kernel.line,
        "instances": [list(body.labels) for body in kernel.bodies],
        "launches": [launch_document(launch) for launch in kernel.launches],
    }


def launch_document(launch: Launch) -> dict[str, Any]:
    """Numbers where they are known, C-like text where they are not."""

    def dim(expr: Any) -> int | str:
        return int(expr.value) if isinstance(expr, Const) else show_expr(expr)

    return {
        "file": launch.span.file,
        "line": launch.span.line,
        "form": launch.form,
        "grid": [dim(expr) for expr in launch.grid],
        "block": [dim(expr) for expr in launch.block],
        "dynamic_smem": dim(launch.dynamic_smem),
        "checked": launch.checked,
    }


def _finding(finding: Finding, number: int) -> dict[str, Any]:
    span = finding.span
    return {
        "id": f"F{number}",
        "fingerprint": finding.fingerprint,
        "rule": finding.rule,
        "hazard": finding.hazard,
        "severity": finding.severity,
        "evidence": finding.evidence,
        "message": finding.message,
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "inlined_at": [{"file": site.file, "line": site.line} for site in span.call_path()],
        "related": [
            {"file": item.span.file, "line": item.span.line, "message": item.message} for item in finding.related
        ],
        "kernel": finding.kernel,
        "launch": finding.launch,
        "assumptions": [{"text": item.text, "source": item.source} for item in finding.assumptions],
        "witness": _witness(finding.witness),
        "effect": finding.effect,
        "fix": finding.fix,
        "also": list(finding.also),
        "count": finding.count,
    }


def _witness(witness: Witness | None) -> dict[str, Any] | None:
    if witness is None:
        return None
    config = witness.config
    return {
        "grid": list(config.grid) if config else None,
        "block": list(config.block) if config else None,
        "dynamic_smem": config.dynamic_smem if config else None,
        "arguments": [{"name": name, "value": _number(value)} for name, value in witness.arguments],
        "threads": [{"block": list(block), "thread": list(thread)} for block, thread in witness.threads],
        "detail": witness.detail,
    }


def _number(value: int | float | str) -> int | float | str:
    """JSON has no NaN and no infinity: those travel as text."""
    return str(value) if isinstance(value, float) and not abs(value) < float("inf") else value


def _verdict(judgement: Judgement, file: str) -> dict[str, Any]:
    verdict = judgement.verdict
    reason = verdict.reason if isinstance(verdict, Unknown) else None
    if isinstance(verdict, Refuted):
        reason = verdict.finding.message
    return {
        "kernel": judgement.kernel,
        "file": file,
        "launch": judgement.launch,
        "rule": judgement.rule,
        "verdict": verdict_name(verdict),
        "reason": reason,
        "contract": verdict.contract if isinstance(verdict, Conditional) else None,
    }
