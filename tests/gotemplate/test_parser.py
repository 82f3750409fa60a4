from __future__ import annotations

import pytest

from hsdns.gotemplate.evaluate import Template
from hsdns.gotemplate.parser import MAX_DEPTH, parse
from hsdns.gotemplate.tree import TemplateError


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
