from __future__ import annotations

import pytest

from hsdns.gotemplate import tree
from hsdns.gotemplate.evaluate import Template
from hsdns.gotemplate.parser import MAX_DEPTH, MAX_LEN, parse, tokenize
from hsdns.gotemplate.tree import TemplateError


def test_spelling() -> None:
    name = tree.Command(0, (tree.Function(0, "print"), tree.Field(0, ("A", "B")), tree.Dot(0)))
    pipeline = tree.Pipeline(0, (name,), ("$x",))
    chain = tree.Chain(0, pipeline, ("C",))
    assert str(chain) == "($x := print .A.B .).C"
    assert str(tree.Include(0, "t", None)) == '{{template "t"}}'
    assert str(tree.Jump(0, "break")) == "{{break}}"
    assert str(tree.Constant(0, None, "nil")) == "nil"
    assert str(tree.Variable(0, "$", ("A",))) == "$.A"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\n\x41\u00e9\101\\"', "a\nA\u00e9A\\"),
        (r"`\n`", r"\n"),
        ("'a'", 97),
        (r"'\n'", 10),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("1_000", 1000),
        ("-5", -5),
        ("1.5e3", 1500.0),
        (".5", 0.5),
    ],
)
def test_values(text: str, value: object) -> None:
    assert tokenize(f"{{{{{text}}}}}")[1].value == value


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("a{{", 1, "the action is not closed"),
        ("a{{ .B", 1, "the action is not closed"),
        ('{{ "a }}', 3, "the string is not closed"),
        ("{{ `a }}", 3, "the string is not closed"),
        ("{{ 'ab' }}", 3, "'ab' is not one character"),
        ("{{/* a }}", 0, "the comment is not closed, or is not alone in its action"),
        ("{{ 1a }}", 3, '"1a" is not a number'),
        ("{{ 99999999999999999999 }}", 3, '"99999999999999999999" is too large'),
        ("{{ 1__e }}", 3, '"1__e" is not a number'),
        ("{{ .A? }}", 5, '"?" cannot follow a word'),
        ("{{ # }}", 3, '"#" has no meaning in an action'),
        (r'{{ "\d" }}', 3, r'"\d" is not an escape sequence; write a backslash as "\\"'),
        (r'{{ "\ud800" }}', 3, r'"\ud800" is not an escape sequence; write a backslash as "\\"'),
        ("x" * (MAX_LEN + 1), MAX_LEN, "the template has more than 10000 characters"),
    ],
)
def test_lexer_refuses(text: str, at: int, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        tokenize(text)
    assert (caught.value.at, caught.value.message) == (at, reason)


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("{{ break }}", 0, '"break" is not within a range'),
        ("{{ if $x := .Group.a }}{{ end }}{{ $x }}", 35, 'variable "$x" is not known'),
        ("{{ $y }}", 3, 'variable "$y" is not known'),
        ("{{ /* bad */ }}", 3, '"/" has no meaning in an action'),
        ("{{", 0, "the action is not closed"),
        ("{{ .Name", 0, "the action is not closed"),
        ("{{ end }}", 0, 'this "end" ends nothing'),
        ("{{ if }}x{{ end }}", 6, 'found "}}", expected a value'),
        ("{{ if true }}x", 14, 'an "{{end}}" is missing'),
        ("{{ nofunc 1 }}", 3, 'function "nofunc" is not known'),
        ("{{ | .Name }}", 3, 'found "|", expected a value'),
        ("{{ (.Name }}", 10, 'found "}}", expected ")"'),
        ("{{ .Name) }}", 8, 'found ")", expected a close'),
        ("{{ .Name.  }}", 8, 'found ".", expected a space, "|" or the end of the action'),
        ("{{ template `t` }}", 0, 'template "t" is not defined'),
        (
            "{{ define `t` }}1{{ end }}{{ define `t` }}2{{ end }}",
            26,
            'template "t" is defined twice',
        ),
        (
            "{{ if true }}{{ define `t` }}{{ end }}{{ end }}",
            13,
            '"define" must be at the top level',
        ),
        ("{{ define `t` }}{{ else }}{{ end }}", 0, '"define" has no "else"'),
        ("{{ define t }}{{ end }}", 10, 'found "t", expected a string'),
        ("{{ if true }}{{ else }}{{ else }}{{ end }}", 30, 'there can be only one "{{else}}"'),
        ("{{ range .A }}{{ else range .B }}{{ end }}", 22, 'found "range", expected a close'),
        ("{{ continue }}", 0, '"continue" is not within a range'),
        (
            "{{ range .A }}{{ define `t` }}{{ end }}{{ end }}",
            14,
            '"define" must be at the top level',
        ),
        ("{{ .A | 1 }}", 8, "1 cannot take the value of a pipeline"),
        ("{{ .A | . }}", 8, ". cannot take the value of a pipeline"),
        ("{{ .A.(B) }}", 5, 'found ".", expected a space, "|" or the end of the action'),
        ("{{ print if }}", 9, '"if" must begin an action'),
        ("{{ prnt 1 }}", 3, 'function "prnt" is not known; did you mean "print"?'),
        ("{{ $nme := 1 }}{{ $name }}", 18, 'variable "$name" is not known; did you mean "$nme"?'),
        ("{{ $x = 1 }}", 3, 'variable "$x" is not known'),
        ("{{ $x, $y := 1 }}", 3, 'variable "$x" is not known'),
        ("{{" + "(" * MAX_DEPTH + "1 }}", MAX_DEPTH + 2, "nested more than 40 deep"),
        ("{{ if 1 }}" * (MAX_DEPTH + 1), 400, "nested more than 40 deep"),
        (
            "{{ if 1 }}" + "{{ else if 1 }}" * MAX_DEPTH + "{{ end }}",
            595,
            "nested more than 40 deep",
        ),
    ],
)
def test_refused(text: str, at: int, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template.from_text(text)
    assert (caught.value.at, caught.value.message) == (at, reason)


def test_what_is_defined() -> None:
    root, defined = parse("a{{ define `t` }}b{{ end }}{{ block `u` . }}c{{ end }}", set())
    assert str(root) == 'a{{template "u" .}}'
    assert {name: str(nodes) for name, nodes in defined.items()} == {"t": "b", "u": "c"}
