"""Templates and their output.

The results were those of Go's text/template with the same data, when the rows were written.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from hsdns.gotemplate.evaluate import MAX_OUTPUT, Template
from hsdns.gotemplate.functions import Method, Record, StringMap
from hsdns.gotemplate.tree import TemplateError

QUESTION = Record("dns.Question", {"Name": "ip-10-1.Example.org.", "Qtype": 1, "Qclass": 1})
DATA = Record(
    "template data",
    {
        "Zone": "example.org.",
        "Name": "ip-10-1.example.org.",
        "Match": ["ip-10-1", "10", "1"],
        "Group": StringMap({"0": "ip-10-1", "1": "10", "a": "10"}),
        "Type": "A",
        "Question": QUESTION,
        "Var": {
            "n": 5, "f": 1.5, "s": "x", "b": True, "l": [1, "a", 2.5], "m": {"k": "v"}, "nil": None,
        },
        "Meta": Method(1, lambda label: "meta" if label == "test/a" else ""),
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("plain", "plain"),
        ("{{ .Name }} 60 IN A 10.0.0.1", "ip-10-1.example.org. 60 IN A 10.0.0.1"),
        ("{{.Name}}", "ip-10-1.example.org."),
        ("{{ .Group.a }}.{{ .Group.missing }}", "10.<no value>"),
        ("{{ index .Match 1 }}", "10"),
        ('{{ index .Group "a" }}|{{ index .Group "b" }}|', "10||"),
        ('{{ index .Var.l 1 }} {{ index .Var.m "k" }}', "a v"),
        ("{{ len .Match }} {{ len .Name }} {{ len .Var }}", "3 20 7"),
        ('{{ parseInt "ff" 16 8 }}', "255"),
        ("{{ parseInt .Group.a 10 8 }}", "10"),
        (
            '{{ parseInt "0x1f" 0 64 }} {{ parseInt "0b11" 0 8 }} {{ parseInt "017" 0 8 }} {{ parseInt "0" 0 8 }} {{ parseInt "zz" 36 0 }}',
            "31 3 15 0 1295",
        ),
        ('{{ parseInt "1_0" 0 8 }}', "10"),
        ('{{ .Meta "test/a" }}|{{ .Meta "none" }}|{{ "test/a" | .Meta }}', "meta||meta"),
        (
            "{{ .Var.nope }} {{ .Var.nope.x }} {{ .Group.missing.x }}",
            "<no value> <no value> <no value>",
        ),
        ("{{ .Var.nil }}", "<no value>"),
        (
            "{{ .Var.n }} {{ .Var.f }} {{ .Var.b }} {{ .Var.l }} {{ .Var.m }} {{ .Var.m.k }}",
            "5 1.5 true [1 a 2.5] map[k:v] v",
        ),
        ("{{ if .Var.b }}yes{{ else }}no{{ end }}", "yes"),
        ("{{ if .Var.nope }}yes{{ else }}no{{ end }}", "no"),
        ('{{ if eq .Type "AAAA" }}a{{ else if eq .Type "A" }}b{{ else }}c{{ end }}', "b"),
        ('{{ if eq .Type "MX" "A" }}in{{ end }}', "in"),
        ("{{ if and .Var.b (eq .Var.n 5) }}both{{ end }}", "both"),
        ('{{ or "" "x" }} {{ and "a" "" "b" }} {{ or "" 0 }}', "x  0"),
        ('{{ not true }} {{ not "" }}', "false true"),
        ("{{ with .Group.a }}{{ . }}{{ end }}", "10"),
        ("{{ with .Group.zz }}{{ . }}{{ else with .Group.a }}a={{ . }}{{ end }}", "a=10"),
        ("{{ with $x := .Group.a }}{{ $x }}{{ end }}", "10"),
        ("{{ range .Match }}[{{ . }}]{{ end }}", "[ip-10-1][10][1]"),
        ("{{ range $i, $m := .Match }}{{ $i }}={{ $m }};{{ end }}", "0=ip-10-1;1=10;2=1;"),
        ("{{ range $k, $v := .Group }}{{ $k }}:{{ $v }},{{ end }}", "0:ip-10-1,1:10,a:10,"),
        ("{{ range 3 }}{{ . }}{{ end }}", "012"),
        ("{{ range $i := 3 }}{{ $i }}{{ end }}", "012"),
        ("{{ range .Var.nope }}x{{ else }}empty{{ end }}", "empty"),
        ('{{ range .Match }}{{ if eq . "10" }}{{ continue }}{{ end }}{{ . }}{{ end }}', "ip-10-11"),
        ('{{ range .Match }}{{ if eq . "10" }}{{ break }}{{ end }}{{ . }}{{ end }}', "ip-10-1"),
        ("{{ $x := 1 }}{{ $x }}{{ $x = 2 }}{{ $x }}", "12"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}", "32"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}", "21"),
        ("{{ $i := 0 }}{{ range $i = .Match }}{{ end }}{{ $i }}", "1"),
        ("{{ if $x := .Group.a }}{{ $x }}{{ end }}", "10"),
        ("{{ range .Match }}{{ $.Zone }}{{ end }}", "example.org.example.org.example.org."),
        ('{{ print 1 2 "a" 3 4 }} {{ println "x" 1 }}', "1 2a3 4 x 1\n"),
        (
            '{{ html "<a href=\'x\'>&\\"" }} {{ js "it\'s <b>" }} {{ urlquery "a b&c" }}',
            "&lt;a href=&#39;x&#39;&gt;&amp;&#34; it\\'s \\u003Cb\\u003E a+b%26c",
        ),
        (
            "{{ slice .Name 0 2 }} {{ slice .Match 1 }} {{ slice .Match 0 1 2 }}",
            "ip [10 1] [ip-10-1]",
        ),
        (
            '{{ eq "a" "b" "a" }} {{ eq true true }} {{ eq 1.5 .Var.f }} {{ eq .Var.nope "" }} {{ ne .Var.nope "" }}',
            "true true true false true",
        ),
        (
            '{{ lt 1 2 }} {{ le 2 2 }} {{ gt "b" "a" }} {{ ge 1 2 }} {{ ne 1 2 }}',
            "true true true false true",
        ),
        ('{{ .Name | len | printf "%d" }} {{ "a" | printf "%s-%s" "b" }}', "20 b-a"),
        (
            "{{ (index .Match 1) }} {{ (.Question).Name }} {{ .Question.Qtype }} {{ .Question.Name }}",
            "10 ip-10-1.Example.org. 1 ip-10-1.Example.org.",
        ),
        ('a {{- " b " -}} c', "a b c"),
        ("a  {{- 1 }}  {{ 2 -}}   b", "a1  2b"),
        ("{{/* comment */}}x{{- /* c */ -}} y", "xy"),
        (
            "{{ 'a' }} {{ '\\n' }} {{ 0x10 }} {{ 1.5 }} {{ 0b11 }} {{ 0o17 }} {{ 017 }} {{ 1_000 }} {{ -5 }} {{ +5 }} {{ 1e7 }}",
            "97 10 16 1.5 3 15 15 1000 -5 5 1e+07",
        ),
        ('{{ `raw \\n` }} {{ "tab\\tx\\x41\\u0042" }}', "raw \\n tab\txAB"),
        (
            '{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .Name }}{{ template "t" }}',
            "<ip-10-1.example.org.><<no value>>",
        ),
        ('{{ block "b" .Zone }}({{ . }}){{ end }}', "(example.org.)"),
        ("{{ if and false (index .Match 9) }}x{{ else }}short{{ end }}", "short"),
        ('{{ "{{" }} {{ "}}" }}', "{{ }}"),
        (
            "{{ $a := .Group }}{{ $a.a }}{{ with .Var }}{{ .n }}{{ $.Name }}{{ end }}",
            "105ip-10-1.example.org.",
        ),
        ("{{ range $i, $e := .Var.l }}{{ $i }}{{ $e }} {{ else }}none{{ end }}", "01 1a 22.5 "),
    ],
)
def test_render(text: str, made: str) -> None:
    assert Template.from_text(text).render(DATA) == made


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("{{ index .Match 9 }}", 3, "index 9 is out of range, there are 3"),
        ('{{ parseInt "fff" 16 8 }}', 3, 'parseInt: "fff" does not fit in 8 bits'),
        ('{{ parseInt "-1" 10 64 }}', 3, 'parseInt: "-1" is not a number of radix 10'),
        ('{{ parseInt "" 10 8 }}', 3, 'parseInt: "" is not a number of radix 10'),
        ('{{ parseInt "1_0" 10 8 }}', 3, 'parseInt: "1_0" is not a number of radix 10'),
        ('{{ parseInt "1" 1 8 }}', 3, "parseInt: radix 1 with 8 bits does not exist"),
        ("{{ parseInt 12 10 8 }}", 3, "parseInt takes a text, a radix and a number of bits"),
        ('{{ parseInt "12" 10 }}', 3, "parseInt takes 3 arguments, found 2"),
        ("{{ .Meta }}", 3, ".Meta takes 1 arguments, found 0"),
        ("{{ .Nope }}", 3, "there is no field Nope in template data"),
        ("{{ .Var.nil.x }}", 3, "there is no field x in nil"),
        ("{{ .Var.n.x }}", 3, "there is no field x in a value of kind int"),
        ("{{ range $i, $j := 3 }}{{ $i }}{{ end }}", 0, "a range over a number takes one variable"),
        ("{{ range .Name }}x{{ end }}", 0, "cannot range over string"),
        ("{{ slice .Name 0 200 }}", 3, "slice 0:200 is out of range, there are 20"),
        ("{{ eq 1 1.0 }}", 3, "cannot compare int and float64"),
        ('{{ lt 1 "a" }}', 3, "cannot compare int and string"),
        ("{{ lt true false }}", 3, "cannot order bool"),
        ("{{ eq .Match .Match }}", 3, "cannot compare slice"),
        ("{{ eq 1 }}", 3, "eq takes 2 or more arguments"),
        ("{{ nil }}", 3, "nil is not a command"),
        ('{{ .Name "x" }}', 3, ".Name takes no arguments, because it is not a function"),
        ("{{ 1 2 }}", 3, "1 takes no arguments, because it is not a function"),
        ("{{ index }}", 3, "index takes 1 or more arguments, found 0"),
        ("{{ len 5 }}", 3, "len of int"),
        ("{{ and }}", 3, "and takes 1 or more arguments, found 0"),
        ("{{ .Meta.x }}", 3, "x takes 1 arguments, found 0"),
        ("{{ printf .Match }}", 3, "printf takes a format first, found slice"),
        ("{{ index .Match `a` }}", 3, "cannot index slice with string"),
        ("{{ index .Group 1 }}", 3, "the keys of a map are strings, found int"),
        ("{{ index 5 1 }}", 3, "cannot index int"),
        ("{{ slice 5 }}", 3, "cannot slice int"),
        ("{{ slice .Name 0 1 2 }}", 3, "slice: too many bounds (3)"),
        ("{{ slice .Name `a` }}", 3, "cannot slice with string"),
        ("{{ range 100000 }}{{ end }}", 18, "the template takes more than 10000 steps"),
        (
            "{{ range 90 }}{{ range 90 }}{{ range 90 }}x{{ end }}{{ end }}{{ end }}",
            42,
            "the template takes more than 10000 steps",
        ),
        (
            "{{ range 1000 }}{{ printf `%0200d` 1 }}{{ end }}",
            16,
            "the template makes more than 65536 characters",
        ),
        (
            "{{ $x := `a` }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}",
            37,
            "the template processes more than 1000000 characters",
        ),
        (
            "{{ define `t` }}{{ template `t` }}{{ end }}{{ template `t` }}",
            16,
            "templates include each other more than 40 deep",
        ),
    ],
)
def test_fails(text: str, at: int, reason: str) -> None:
    template = Template.from_text(text)
    with pytest.raises(TemplateError) as caught:
        template.render(DATA)
    assert (caught.value.at, caught.value.message) == (at, reason)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            '{{ .Meta "test/a" }}|{{ .Meta "none" }}|{{ "test/a" | .Meta }}',
            '{{.Meta "test/a"}}|{{.Meta "none"}}|{{"test/a" | .Meta}}',
        ),
        ("{{ if .Var.b }}yes{{ else }}no{{ end }}", "{{if .Var.b}}yes{{else}}no{{end}}"),
        ("{{ if .Var.nope }}yes{{ else }}no{{ end }}", "{{if .Var.nope}}yes{{else}}no{{end}}"),
        (
            '{{ if eq .Type "AAAA" }}a{{ else if eq .Type "A" }}b{{ else }}c{{ end }}',
            '{{if eq .Type "AAAA"}}a{{else}}{{if eq .Type "A"}}b{{else}}c{{end}}{{end}}',
        ),
        ('{{ if eq .Type "MX" "A" }}in{{ end }}', '{{if eq .Type "MX" "A"}}in{{end}}'),
        (
            "{{ if and .Var.b (eq .Var.n 5) }}both{{ end }}",
            "{{if and .Var.b (eq .Var.n 5)}}both{{end}}",
        ),
        ("{{ with $x := .Group.a }}{{ $x }}{{ end }}", "{{with $x := .Group.a}}{{$x}}{{end}}"),
        (
            "{{ range $i, $m := .Match }}{{ $i }}={{ $m }};{{ end }}",
            "{{range $i, $m := .Match}}{{$i}}={{$m}};{{end}}",
        ),
        (
            "{{ range $k, $v := .Group }}{{ $k }}:{{ $v }},{{ end }}",
            "{{range $k, $v := .Group}}{{$k}}:{{$v}},{{end}}",
        ),
        ("{{ range $i := 3 }}{{ $i }}{{ end }}", "{{range $i := 3}}{{$i}}{{end}}"),
        (
            '{{ range .Match }}{{ if eq . "10" }}{{ continue }}{{ end }}{{ . }}{{ end }}',
            '{{range .Match}}{{if eq . "10"}}{{continue}}{{end}}{{.}}{{end}}',
        ),
        (
            '{{ range .Match }}{{ if eq . "10" }}{{ break }}{{ end }}{{ . }}{{ end }}',
            '{{range .Match}}{{if eq . "10"}}{{break}}{{end}}{{.}}{{end}}',
        ),
        ("{{ $x := 1 }}{{ $x }}{{ $x = 2 }}{{ $x }}", "{{$x := 1}}{{$x}}{{$x = 2}}{{$x}}"),
        (
            "{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}",
            "{{$x := 1}}{{if true}}{{$x = 2}}{{$y := 3}}{{$y}}{{end}}{{$x}}",
        ),
        (
            "{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}",
            "{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}",
        ),
        (
            "{{ $i := 0 }}{{ range $i = .Match }}{{ end }}{{ $i }}",
            "{{$i := 0}}{{range $i = .Match}}{{end}}{{$i}}",
        ),
        ("{{ if $x := .Group.a }}{{ $x }}{{ end }}", "{{if $x := .Group.a}}{{$x}}{{end}}"),
        (
            '{{ .Name | len | printf "%d" }} {{ "a" | printf "%s-%s" "b" }}',
            '{{.Name | len | printf "%d"}} {{"a" | printf "%s-%s" "b"}}',
        ),
        (
            "{{ (index .Match 1) }} {{ (.Question).Name }} {{ .Question.Qtype }} {{ .Question.Name }}",
            "{{(index .Match 1)}} {{(.Question).Name}} {{.Question.Qtype}} {{.Question.Name}}",
        ),
        ("{{/* comment */}}x{{- /* c */ -}} y", "xy"),
        (
            '{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .Name }}{{ template "t" }}',
            '{{template "t" .Name}}{{template "t"}}',
        ),
        ('{{ block "b" .Zone }}({{ . }}){{ end }}', '{{template "b" .Zone}}'),
        (
            "{{ if and false (index .Match 9) }}x{{ else }}short{{ end }}",
            "{{if and false (index .Match 9)}}x{{else}}short{{end}}",
        ),
        (
            "{{ range $i, $e := .Var.l }}{{ $i }}{{ $e }} {{ else }}none{{ end }}",
            "{{range $i, $e := .Var.l}}{{$i}}{{$e}} {{else}}none{{end}}",
        ),
    ],
)
def test_text_in_the_spelling_of_go(text: str, written: str) -> None:
    assert str(Template.from_text(text)) == written


def test_a_template_is_used_again() -> None:
    template = Template.from_text("{{ $x := .Name }}{{ $x }}{{ range 5 }}{{ . }}{{ end }}")
    assert template.render(DATA) == template.render(DATA) == "ip-10-1.example.org.01234"


def test_nested_too_deeply() -> None:
    inside = "{{ if true }}" * 35 + "{{ template `t` }}" + "{{ end }}" * 35
    text = "{{ define `t` }}" + inside + "{{ end }}{{ template `t` }}"
    with pytest.raises(TemplateError, match="deep"):
        Template.from_text(text).render(DATA)


def test_output_up_to_the_limit() -> None:
    text = "{{ range 64 }}" + "x" * (MAX_OUTPUT // 64) + "{{ end }}"
    assert len(Template.from_text(text).render(DATA)) == MAX_OUTPUT


@given(strategies.text(alphabet='{}-.$|:=()"`/* ifrangewithendNamelsbk1', max_size=40))
def test_any_text_gives_a_text_or_an_error(text: str) -> None:
    try:
        Template.from_text(text).render(DATA)
    except TemplateError as error:
        assert -1 <= error.at <= len(text)


@given(strategies.lists(strategies.sampled_from(
    ["{{ .Name }}", "{{ if .Var.b }}", "{{ range .Match }}", "{{ end }}", "{{ else }}", "x", "{{ break }}",
     "{{ $a := 1 }}", "{{ $a }}", "{{- 1 -}}", " ", "{{ with .Group }}", "{{ .a }}"]), max_size=12))  # fmt: skip
def test_go_spelling_means_the_same(parts: list[str]) -> None:
    try:
        template = Template.from_text("".join(parts))
    except TemplateError:
        return
    again = Template.from_text(str(template))
    assert str(again) == str(template)
    try:
        made = template.render(DATA)
    except TemplateError:
        return
    assert again.render(DATA) == made
