"""A quick slice of ``benchmarks/differential.py``: random kernels through both readers must give one trace."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.kernel import Opaque
from prelaunch.analysis.ptx.libraries import toolchain
from prelaunch.analysis.walk import walk

ROOT = Path(__file__).resolve().parent.parent
TOOLS = toolchain()
needs_compiler = pytest.mark.skipif(
    TOOLS.nvrtc is None and TOOLS.nvcc is None,
    reason="neither NVRTC nor nvcc is installed: pip install 'prelaunch[sass]'",
)


def load(name: str) -> ModuleType:
    """A module of ``benchmarks``, which is no package of the distribution."""
    found = sys.modules.get(f"benchmarks.{name}")
    if found is None:
        spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", ROOT / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[f"benchmarks.{name}"] = found
        spec.loader.exec_module(found)
    return found


@needs_compiler
def test_generated_kernels_give_one_trace_in_both_readers() -> None:
    differential = load("differential")
    tally = differential.run_all(differential.generated(30, 0))
    assert tally.disagreements == []
    assert tally.compared >= 28, tally.skipped
    assert tally.agreed == tally.compared


def test_the_generator_repeats_itself() -> None:
    generate = load("differential").generate
    assert generate(7).text == generate(7).text
    assert generate(7).text != generate(8).text


def test_unused_loads_are_found_through_loops_and_overwritten_values() -> None:
    text = """__global__ void k(const int* a, int* out, int n) {
  int used = a[0];
  int dead = a[1];
  int late = a[2];
  for (int i = 0; i < n; ++i) {
    out[i] = late + used;
    late = a[3];
    dead = a[4];
  }
  late = a[5];
}
"""
    project = project_from_text(text)
    kernel = lower_kernel(project, project.kernels()[0])
    assert [found.span.line for found in load("unused_loads").unused_loads(kernel)] == [3, 8, 10]


@pytest.mark.parametrize(
    "expression",
    [
        "(a * (a & n)) * (n + 1)",
        "n << ((a * (n & 3)) & 7)",
        "(unsigned)(__popc((a & n))) & 15u",
        "(a & (a * n)) - +(70u)",
    ],
)
def test_products_in_parentheses_are_no_casts(expression: str) -> None:
    """Valid expressions that the grammar reads as casts; found by the generator."""
    project = project_from_text(f"__global__ void k(int* out, int n) {{ int a = threadIdx.x; out[a] = {expression}; }}")
    kernel = lower_kernel(project, project.kernels()[0])
    assert [s for s in walk(kernel.body) if isinstance(s, Opaque)] == []


def test_lookup_takes_the_declaration_of_the_branch_that_is_compiled() -> None:
    """An alias defined in every branch of an ``#if`` means what the compiler reads; found on a real repository."""
    text = """#if defined(USE_HALF)
typedef short Number;
#elif defined(USE_WIDE)
typedef double Number;
#else
typedef float Number;
#endif
__global__ void k(Number* out) { out[threadIdx.x] = 1; }
"""
    project = project_from_text(text)
    kernel = lower_kernel(project, project.kernels()[0])
    assert str(kernel.objects[0].element) == "f32"


@needs_compiler
def test_lambdas_see_later_values_of_what_they_capture_by_reference() -> None:
    """Found on a real kernel: ``[&r]`` was read as a copy."""
    differential = load("differential")
    text = """struct Two { int x, y; };
__global__ void k(int* out) {
  Two r = {};
  int kept = 1;
  auto pick = [&r, kept](int i) { return (i ? r.y : r.x) + kept; };
  r.y = threadIdx.x;
  kept = 5;
  out[threadIdx.x] = pick(1);
}
"""
    project = project_from_text(text)
    tally = differential.run_all([differential.Case("lambda", project, project.kernels()[0])])
    assert (tally.agreed, tally.disagreements) == (1, [])
