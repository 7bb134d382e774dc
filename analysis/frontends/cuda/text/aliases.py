"""Macros of a project that stand for specifiers only (``#define KERNEL __global__ void``, ``#define HD``).

C++ declarations written with them do not parse, and kernels hide behind them. A definition qualifies when its body
holds nothing but specifiers, attributes, pragmas and other such macros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from prelaunch.analysis.frontends.cuda.text.declarations import Macro, Project
from prelaunch.analysis.frontends.cuda.text.macros import Expander, MacroLimit, expand_call, expand_object
from prelaunch.analysis.frontends.cuda.text.tokens import Token, tokenize

_SPECIFIERS = """
__global__ __device__ __host__ __shared__ __constant__ __managed__ __grid_constant__ __forceinline__
__noinline__ __inline__ __inline inline static extern constexpr consteval constinit virtual explicit friend const
volatile register thread_local mutable __restrict__ __restrict restrict __forceinline __inline_hint__ noexcept
override final __cdecl __stdcall __fastcall __vectorcall __thiscall __nv_pure__ __extension__
"""
SPECIFIERS = frozenset(_SPECIFIERS.split())
_TYPES = "void bool char short int long float double signed unsigned auto wchar_t size_t"
TYPES = frozenset(_TYPES.split())
_WITH_ARGUMENTS = """
__launch_bounds__ __cluster_dims__ __block_size__ __maxnreg__ __align__ alignas __attribute__ __attribute
__declspec _Pragma __pragma noexcept
"""
WITH_ARGUMENTS = frozenset(_WITH_ARGUMENTS.split())
RESTRICT = frozenset(("__restrict__", "__restrict", "restrict"))
_CALLING = """
WINAPI APIENTRY CALLBACK CUDART_CB CUDA_CB CUDAAPI CUDARTAPI CUDARTAPI_CDECL CUFFTAPI CUBLASWINAPI CURANDAPI
CUSPARSEAPI CUDNNWINAPI NVRTCAPI STDMETHODCALLTYPE GLAPIENTRY __stdcall __cdecl __fastcall
"""
CALLING = frozenset(_CALLING.split())
"""Calling conventions that toolkit and system headers define: empty on Linux."""

_PLACES = ("__shared__", "__constant__", "__managed__", "__global__", "__device__")
_ALIGNMENT = frozenset(("__align__", "alignas", "aligned", "__aligned__"))


@dataclass(frozen=True, slots=True)
class Use:
    """What parsing does with a use of a specifier macro.

    kind "type": left alone, it stands where a type stands; "blank": taken out, but for the one word ``keep`` if that
    fits in its place. ``called``: it takes arguments. ``loss``: what taking it out loses that only the tree can tell.
    """

    kind: Literal["blank", "type"]
    called: bool
    keep: bytes = b""
    loss: str = ""


class Aliases:
    """The specifier macros of a project, each as seen from a file."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._qualified = _qualify(project.macros)
        self.names = frozenset(m.name for m in self._qualified) | CALLING
        self.kernels = frozenset(m.name for m in self._qualified if "__global__" in _words(m))

    def use(self, name: str, file: str) -> Use | None:
        """How ``name`` is rewritten in ``file``; None when it is no such macro there."""
        macro = self._project.lookup_macro(name, file)
        if macro is None:
            return Use("blank", False) if name in CALLING else None
        if macro not in self._qualified:
            return None
        words = self._all_words(macro, file)
        called = macro.params is not None
        if not words.isdisjoint(TYPES):
            return Use("type", called)
        place = next((p for p in _PLACES if p in words), "")
        if place:
            return Use("blank", called, place.encode(), "" if place in ("__global__", "__device__") else place)
        if words and words <= RESTRICT:
            return Use("blank", called, b"restrict")
        return Use("blank", called, loss="alignment" if words & _ALIGNMENT else "")

    def _all_words(self, macro: Macro, file: str) -> frozenset[str]:
        """Words of the body, of other macros in it too."""
        try:
            text = Expander(lambda name: self._project.lookup_macro(name, file)).expand(tokenize(macro.body))
        except MacroLimit:
            return frozenset()
        return frozenset(t.text for t in text if t.kind == "name")

    def expand(self, text: str, file: str) -> str:
        """``text`` (a declaration head) with its specifier macros replaced by what they stand for."""
        tokens = tokenize(text)
        if not any(t.text in self.names for t in tokens):
            return text
        parts: list[str] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            use = self.use(token.text, file) if token.text in self.names else None
            end = index + 1
            if use is None:
                parts.append(f" {token.text}" if token.space else token.text)
            elif use.called:
                end = _close(tokens, index + 1)
                parts.append(f" {self._call(tokens[index:end], file)} ")
            else:
                parts.append(f" {_attempt(partial(expand_object, self._project, file, token.text))} ")
            index = end
        return "".join(parts)

    def _call(self, tokens: list[Token], file: str) -> str:
        inside = tokens[2:-1]
        args: list[list[str]] = [[]]
        depth = 0
        for token in inside:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if token.text == "," and depth == 0:
                args.append([])
            else:
                args[-1].append(token.text)
        texts = [" ".join(arg) for arg in args] if inside else []
        return _attempt(partial(expand_call, self._project, file, tokens[0].text, texts))


def _attempt(expand: Callable[[], str | None]) -> str:
    """An expansion, nothing where a cap stops it: specifiers that large are none."""
    try:
        return expand() or ""
    except MacroLimit:
        return ""


def _close(tokens: list[Token], at: int) -> int:
    """Index after the parenthesis group that opens at ``at``; ``at`` when none does."""
    if at >= len(tokens) or tokens[at].text != "(":
        return at
    depth = 0
    for index in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def _words(macro: Macro) -> list[str]:
    return [t.text for t in tokenize(macro.body) if t.kind == "name"]


def _qualify(macros: dict[str, list[Macro]]) -> frozenset[Macro]:
    """Fixpoint: definitions whose words are specifiers or names of definitions that qualify."""
    waiting: list[tuple[Macro, frozenset[str]]] = []
    qualified: set[Macro] = set()
    names: set[str] = set()
    for group in macros.values():
        for macro in group:
            if len(macro.body) > 400 or (macro.params is not None and not macro.body):
                continue
            others = _other_names(macro)
            if others is None:
                continue
            if others:
                waiting.append((macro, others))
            else:
                qualified.add(macro)
                names.add(macro.name)
    changed = True
    while changed:
        ready = [m for m, others in waiting if others <= names]
        waiting = [(m, others) for m, others in waiting if not others <= names]
        qualified.update(ready)
        names.update(m.name for m in ready)
        changed = bool(ready)
    return frozenset(qualified)


def _other_names(macro: Macro) -> frozenset[str] | None:
    """Names in the body that are no specifiers; None when it holds anything else."""
    tokens = tokenize(macro.body)
    others: set[str] = set()
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text in WITH_ARGUMENTS:
            index = _close(tokens, index + 1)
            continue
        if token.text == "[" and following == "[":
            while index < len(tokens) and tokens[index].text != "]":
                index += 1
            index += 2
            continue
        if token.text == "extern" and following.startswith('"'):
            index += 2
            continue
        if token.kind != "name":
            return None
        if token.text not in SPECIFIERS and token.text not in TYPES:
            if macro.params is not None and token.text in macro.params:
                return None
            others.add(token.text)
            index = _close(tokens, index + 1)
            continue
        index += 1
    return frozenset(others)
