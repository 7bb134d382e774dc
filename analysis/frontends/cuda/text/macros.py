"""Macro expansion on demand, and fragments of expanded text as syntax trees.

Expansion follows the standard (ISO C++ [cpp.replace]; the algorithm with hide sets is Prosser's): arguments are
expanded before substitution except beside ``#`` and ``##``, the result is rescanned, a macro is not expanded inside
itself. Names are looked up with ``Project.lookup_macro``. Work is capped; a cap that is hit raises ``MacroLimit``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.declarations import Macro, Project
from prelaunch.analysis.frontends.cuda.text.syntax import ParseLimit, parse_bytes
from prelaunch.analysis.frontends.cuda.text.tokens import Token, spell, tokenize

TOKEN_CAP = 10_000
DEPTH_CAP = 64
Kind = Literal["expression", "statement", "statements", "type"]


class MacroLimit(Exception):
    """Expansion stopped; the message is the reason."""


def expand_object(project: Project, file: str, name: str) -> str | None:
    """Full expansion of object-like macro ``name`` as seen from ``file``; None when there is none."""
    macro = project.lookup_macro(name, file)
    if macro is None or macro.params is not None:
        return None
    return spell(_expander(project, file).expand([Token("name", name)]))


def expand_call(project: Project, file: str, name: str, args: list[str]) -> str | None:
    """Full expansion of ``name(args)``; None when ``name`` is no function-like macro or takes other arguments."""
    macro = project.lookup_macro(name, file)
    if macro is None or macro.params is None:
        return None
    groups = [tokenize(arg) for arg in args]
    if fit_arguments(macro, groups) is None:
        return None
    call = [Token("name", name), Token("mark", "(")]
    for index, group in enumerate(groups):
        call += [Token("mark", ",")] if index else []
        call += group
    return spell(_expander(project, file).expand([*call, Token("mark", ")")]))


def expand_text(project: Project, file: str, text: str) -> str:
    """``text`` with every macro use in it expanded."""
    return spell(_expander(project, file).expand(tokenize(text)))


def fit_arguments(macro: Macro, args: list[list[Token]]) -> dict[str, list[Token]] | None:
    """Parameter -> argument tokens; variable arguments are joined under their name. None: wrong count."""
    params = macro.params or ()
    if not params:
        return {} if all(not a for a in args) and len(args) <= 1 else None
    args = args or [[]]
    if not params[-1].endswith("..."):
        return dict(zip(params, args, strict=True)) if len(args) == len(params) else None
    fixed = len(params) - 1
    if len(args) < fixed:
        return None
    bound = dict(zip(params[:-1], args[:fixed], strict=True))
    rest: list[Token] = []
    for index, arg in enumerate(args[fixed:]):
        rest += [Token("mark", ",")] if index else []
        rest += arg
    bound[params[-1][:-3].strip() or "__VA_ARGS__"] = rest
    return bound


def _expander(project: Project, file: str) -> Expander:
    return Expander(lambda name: project.lookup_macro(name, file))


class Expander:
    """One expansion: ``lookup`` gives the macro a name stands for; tokens are counted over all calls of ``expand``."""

    def __init__(self, lookup: Callable[[str], Macro | None]) -> None:
        self.lookup = lookup
        self.made = 0

    def expand(self, tokens: list[Token], depth: int = 0) -> list[Token]:
        if depth > DEPTH_CAP:
            raise MacroLimit(f"macro arguments nest deeper than {DEPTH_CAP}")
        pending = tokens[::-1]
        result: list[Token] = []
        self._count(len(tokens))
        while pending:
            token = pending.pop()
            macro = None
            if token.kind == "name" and token.text not in token.hidden:
                macro = self.lookup(token.text)
            if macro is None:
                result.append(token)
                continue
            if macro.params is None:
                body = self._substitute(macro, {}, depth)
                hidden = token.hidden | {macro.name}
            else:
                call = _take_call(pending)
                bound = None if call is None else fit_arguments(macro, call[0])
                if call is None or bound is None:
                    result.append(token)
                    continue
                del pending[len(pending) - call[1] :]
                body = self._substitute(macro, bound, depth)
                hidden = (token.hidden & call[2]) | {macro.name}
            if len(hidden) > DEPTH_CAP:
                raise MacroLimit(f"macros nest deeper than {DEPTH_CAP}")
            self._count(len(body))
            made = [Token(t.kind, t.text, t.space, t.hidden | hidden) for t in body]
            if made:
                made[0] = made[0]._replace(space=token.space)
            pending.extend(reversed(made))
        return result

    def _count(self, more: int) -> None:
        self.made += more
        if self.made > TOKEN_CAP:
            raise MacroLimit(f"expansion makes more than {TOKEN_CAP} tokens")

    def _substitute(self, macro: Macro, bound: dict[str, list[Token]], depth: int) -> list[Token]:
        body = tokenize(macro.body)
        self._count(len(body))
        variadic = bool(macro.params) and macro.params is not None and macro.params[-1].endswith("...")
        rest_name = next(reversed(bound)) if variadic else ""
        body = _va_opt(body, bool(bound.get(rest_name)) if variadic else False)
        result: list[Token] = []
        index = 0
        while index < len(body):
            token = body[index]
            following = body[index + 1] if index + 1 < len(body) else None
            if token.text == "#" and macro.params is not None and following is not None and following.text in bound:
                result.append(_stringize(bound[following.text], token.space))
                index += 2
            elif token.text == "##" and result and following is not None:
                index += self._paste(result, following, bound, rest_name)
            elif token.text in bound and token.kind == "name":
                argument = bound[token.text]
                pasted = following is not None and following.text == "##"
                made = list(argument) if pasted else self.expand(list(argument), depth + 1)
                if made:
                    made[0] = made[0]._replace(space=token.space)
                result += made or ([_PLACE] if pasted else [])
                index += 1
            else:
                result.append(token)
                index += 1
            if len(result) > TOKEN_CAP:
                raise MacroLimit(f"expansion makes more than {TOKEN_CAP} tokens")
        return [t for t in result if t is not _PLACE]

    def _paste(self, result: list[Token], right: Token, bound: dict[str, list[Token]], rest_name: str) -> int:
        """Handles ``## right``; returns how many body tokens that were. ``, ## __VA_ARGS__`` drops the comma."""
        tokens = list(bound[right.text]) if right.text in bound else [right]
        if result[-1].text == "," and rest_name and right.text == rest_name:
            if tokens:
                result += tokens
            else:
                result.pop()
            return 2
        if tokens:
            left = result.pop()
            if left is _PLACE:
                result += tokens
            else:
                merged = tokenize(left.text + tokens[0].text)
                merged[0] = merged[0]._replace(space=left.space)
                result += [*merged, *tokens[1:]]
        return 2


_PLACE = Token("place", "")


def _stringize(tokens: list[Token], space: bool) -> Token:
    text = ""
    for index, token in enumerate(tokens):
        part = token.text
        if token.kind == "text":
            part = part.replace("\\", "\\\\").replace('"', '\\"')
        text += (" " if index and token.space else "") + part
    return Token("text", f'"{text}"', space)


def _va_opt(body: list[Token], given: bool) -> list[Token]:
    """``__VA_OPT__(x)`` replaced by ``x`` or by nothing."""
    result: list[Token] = []
    index = 0
    while index < len(body):
        if body[index].text == "__VA_OPT__" and index + 1 < len(body) and body[index + 1].text == "(":
            depth, end = 0, index + 1
            while end < len(body):
                depth += {"(": 1, ")": -1}.get(body[end].text, 0)
                if depth == 0:
                    break
                end += 1
            result += body[index + 2 : end] if given else []
            index = end + 1
        else:
            result.append(body[index])
            index += 1
    return result


def _take_call(pending: list[Token]) -> tuple[list[list[Token]], int, frozenset[str]] | None:
    """Arguments of a call at the top of ``pending`` (a reversed list): groups, tokens used, hide set of the ``)``."""
    if not pending or pending[-1].text != "(":
        return None
    groups: list[list[Token]] = [[]]
    depth = 0
    for used in range(1, len(pending) + 1):
        token = pending[-used]
        if token.text in ("(", "[", "{") and token.kind == "mark":
            depth += token.text == "("
        elif token.text == ")" and token.kind == "mark":
            depth -= 1
            if depth == 0:
                return groups, used, token.hidden
        if token.text == "(" and depth == 1 and used == 1:
            continue
        if token.text == "," and depth == 1:
            groups.append([])
        else:
            groups[-1].append(token)
    return None


_WRAP: dict[Kind, tuple[bytes, bytes]] = {
    "expression": (b"void f(){return ", b"\n;}"),
    "statement": (b"void f(){", b"\n}"),
    "statements": (b"void f(){", b"\n}"),
    "type": (b"using t = ", b"\n;"),
}


@lru_cache(maxsize=4096)
def parse_fragment(text: str, kind: Kind) -> tuple[bytes, Node]:
    """``text`` as a piece of a function: the bytes that were parsed and the node in them.

    "expression": the expression; "statement": the one statement (a missing ``;`` is added), or the
    ``compound_statement`` around them when there are several or none; "statements": always that
    ``compound_statement``; "type": the ``type_descriptor``. Text that is no such thing gives a node with an error in
    it, the whole body, or the ``translation_unit``. Node offsets index the returned bytes. Raises
    MacroLimit for text that is too much work to parse.
    """
    before, after = _WRAP[kind]
    code = text.encode("utf-8", "surrogateescape")
    if kind in ("statement", "statements") and code.strip() and not code.rstrip().endswith((b";", b"}")):
        after = b"\n;}"
    code = before + code + after
    try:
        root = parse_bytes(code).root_node
    except ParseLimit as limit:
        raise MacroLimit(str(limit)) from None
    return code, _fragment(root, kind)


def _fragment(root: Node, kind: Kind) -> Node:
    top = root.named_children
    if len(top) != 1 or top[0].type == "ERROR":
        return root
    if kind == "type":
        found = top[0].child_by_field_name("type")
        return found if found is not None else root
    body = top[0].child_by_field_name("body")
    if body is None:
        return root
    inside = [c for c in body.named_children if c.type != "comment"]
    if kind == "statements" or len(inside) != 1:
        return body
    if kind == "statement":
        return inside[0]
    values = [c for c in inside[0].named_children if c.type != "comment"]
    return values[0] if len(values) == 1 else body
