"""Macro expansion by the standard's rules, fragments, ``#if`` conditions."""

from __future__ import annotations

import pytest

from prelaunch.analysis.frontends.cuda import project_from_text
from prelaunch.analysis.frontends.cuda.text.conditions import evaluate, predefined
from prelaunch.analysis.frontends.cuda.text.macros import Kind, expand_call, expand_object, expand_text, parse_fragment
from prelaunch.analysis.frontends.cuda.text.tokens import tokenize

MACROS = r"""
#define N 4
#define M (N*2) /* twice */ // really
#define SQ(x) ((x)*(x))
#define STR(x) #x
#define XSTR(x) STR(x)
#define CAT(a, b) a##b
#define XCAT(a, b) CAT(a, b)
#define LOG(fmt, ...) printf(fmt, ##__VA_ARGS__)
#define ALL(...) f(__VA_ARGS__)
#define NAMED(rest...) f(rest)
#define OPT(a, ...) h(a __VA_OPT__(,) __VA_ARGS__)
#define LONG(a) do { \
    foo(a); \
  } while (0)
#define SELF SELF + 1
#define f(a) a*g
#define g(a) f(a)
#define EMPTY
#define NONE() nothing
#define hash_hash # ## #
#define mkstr(a) # a
#define in_between(a) mkstr(a)
#define join(c, d) in_between(c hash_hash d)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M", "(4*2)"),
        ("SQ(SQ(N + 1))", "((((4 + 1)*(4 + 1)))*(((4 + 1)*(4 + 1))))"),
        ("SQ + 1", "SQ + 1"),
        ("SQ (3)", "((3)*(3))"),
        ('STR(a  + "x\\n")', '"a + \\"x\\\\n\\""'),
        ("XSTR(N)", '"4"'),
        ("CAT(x, N)", "xN"),
        ("XCAT(x, N)", "x4"),
        ("XCAT(, N)", "4"),
        ('LOG("a")', 'printf("a")'),
        ('LOG("a", 1, 2)', 'printf("a", 1, 2)'),
        ("NAMED(1, 2)", "f(1, 2)"),
        ("OPT(1)", "h(1)"),
        ("OPT(1, 2)", "h(1, 2)"),
        ("LONG(q)", "do { foo(q); } while (0)"),
        ("LONG(p, q)", "LONG(p, q)"),
        ("SELF", "SELF + 1"),
        ("f(2)(9)", "2*9*g"),
        ("a EMPTY b", "a b"),
        ("NONE()", "nothing"),
        ("NONE", "NONE"),
        ("join(x, y)", '"x ## y"'),
        ("SQ((1, 2))", "(((1, 2))*((1, 2)))"),
        ("- -1", "- -1"),
        ("1 .x", "1 .x"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    project = project_from_text(MACROS)
    made = expand_text(project, "k.cu", text)
    assert [t.text for t in tokenize(made)] == [t.text for t in tokenize(expected)]


def test_services() -> None:
    project = project_from_text(MACROS)
    assert expand_object(project, "k.cu", "M") == "(4*2)"
    assert expand_object(project, "k.cu", "SQ") is None
    assert expand_object(project, "k.cu", "ABSENT") is None
    assert expand_call(project, "k.cu", "SQ", ["a b"]) == "((a b)*(a b))"
    assert expand_call(project, "k.cu", "SQ", ["a", "b"]) is None
    assert expand_call(project, "k.cu", "N", []) is None
    assert expand_call(project, "k.cu", "NONE", []) == "nothing"


def test_macro_span_is_the_spelling() -> None:
    project = project_from_text(MACROS)
    file = project.files["k.cu"]
    assert file.source.text(project.macros["M"][0].span) == "(N*2)"
    assert project.macros["LOG"][0].params == ("fmt", "...")
    assert "\\" not in project.macros["LONG"][0].body


@pytest.mark.parametrize(
    ("text", "kind", "node", "spelled"),
    [
        ("a + b", "expression", "binary_expression", "a + b"),
        ("x", "expression", "identifier", "x"),
        ("{1, 2}", "expression", "initializer_list", "{1, 2}"),
        ("a = b", "statement", "expression_statement", "a = b"),
        ("int x = 3", "statement", "declaration", "int x = 3"),
        ("if (x) y();", "statement", "if_statement", "if (x) y();"),
        ("a = b; c = d;", "statement", "compound_statement", "a = b; c = d;"),
        ("a = b;", "statements", "compound_statement", "a = b;"),
        ("", "statements", "compound_statement", ""),
        ("unsigned long long", "type", "type_descriptor", "unsigned long long"),
        ("const float4*", "type", "type_descriptor", "const float4*"),
    ],
)
def test_fragments(text: str, kind: Kind, node: str, spelled: str) -> None:
    code, found = parse_fragment(text, kind)
    assert found.type == node
    assert not found.has_error
    assert spelled in code[found.start_byte : found.end_byte].decode()


def test_fragment_that_is_none() -> None:
    cases: list[tuple[str, Kind]] = [("a b", "expression"), ("}{", "statement"), ("3 +", "type")]
    for text, kind in cases:
        _, found = parse_fragment(text, kind)
        assert found.has_error or found.type in ("compound_statement", "translation_unit")


@pytest.mark.parametrize(
    ("text", "value", "certain"),
    [
        ("1", True, True),
        ("0", False, True),
        ("defined(__CUDACC__) && !defined(_WIN32)", True, True),
        ("defined __CUDACC__", True, True),
        ("__CUDA_ARCH__ >= 800", True, True),
        ("UNKNOWN", False, False),
        ("defined(UNKNOWN)", False, False),
        ("0 && UNKNOWN", False, True),
        ("1 || UNKNOWN", True, True),
        ("1 ? 2 : 0", True, True),
        ("0x10 == 16 && 010 == 8 && 1'000 == 1000L", True, True),
        ("-1 < 0 && ~0 == -1", True, True),
        ("(1 << 4) % 5 == 1 && -7 / 2 == -3", True, True),
        ("'a' == 97", True, True),
        ("1 / 0", False, False),
        ("1 +", False, False),
        ("", False, False),
        ("FOO(1)", False, False),
    ],
)
def test_conditions(text: str, value: bool, certain: bool) -> None:
    assert evaluate(text, predefined().get) == (value, certain)
