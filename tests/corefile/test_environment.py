import pytest

from hsdns.corefile.lexer import Lexeme, substitute
from hsdns.corefile.tree import CorefileError, Position

ENVIRON = {
    "PORT": "5353",
    "HOST": "example.org",
    "TWO": "a b",
    "INDIRECT": "{$PORT}",
    "WINDOWS": "{%PORT%}",
    "A B": "spaced",
    "SELF": "x{$SELF}",
    "DOUBLE": "{$DOUBLE}{$DOUBLE}",
}


def lexeme(text: str) -> Lexeme:
    return Lexeme(text, Position("Corefile", 3, 7), quoted=True, starts_line=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="nothing to do"),
        pytest.param("{$PORT}", "5353", id="dollar form"),
        pytest.param("{%PORT%}", "5353", id="percent form"),
        pytest.param("{$HOST}:{$PORT}", "example.org:5353", id="two in a word"),
        pytest.param("{%HOST%}:{$PORT}", "example.org:5353", id="both forms"),
        pytest.param("{$PORT}{$PORT}", "53535353", id="the same one twice"),
        pytest.param("a{$UNSET}b", "ab", id="unset is empty"),
        pytest.param("{$TWO}", "a b", id="a value with a space stays one word"),
        pytest.param("{$INDIRECT}", "5353", id="a value that names a variable"),
        pytest.param("{$WINDOWS}", "{%PORT%}", id="percent forms are filled in first"),
        pytest.param("{$A B}", "spaced", id="any name"),
        pytest.param("{$}", "{$}", id="no name"),
        pytest.param("{$}{$PORT}", "{$}{$PORT}", id="no name stops"),
        pytest.param("{%%}{$PORT}", "{%%}5353", id="no name stops its own form only"),
        pytest.param("{%}", "{%}", id="overlapping marks"),
        pytest.param("{$PORT", "{$PORT", id="unclosed"),
        pytest.param("{%PORT}", "{%PORT}", id="wrong end"),
        pytest.param("$PORT ${PORT}", "$PORT ${PORT}", id="shell forms are ordinary"),
        pytest.param("{{ .Name }} {$PORT}", "{{ .Name }} 5353", id="beside a template"),
        pytest.param("{{$x}}", "{}", id="a template variable is taken for one of the environment"),
    ],
)
def test_substitute(text: str, expected: str) -> None:
    token = substitute(lexeme(text), ENVIRON)
    assert (token.text, token.position, token.quoted) == (
        expected,
        Position("Corefile", 3, 7),
        True,
    )


@pytest.mark.parametrize("name", ["SELF", "DOUBLE"])
def test_a_variable_that_refers_to_itself_is_an_error(name: str) -> None:
    with pytest.raises(CorefileError) as caught:
        substitute(lexeme(f"{{${name}}}"), ENVIRON)
    assert str(caught.value) == (
        f'Corefile:3:7: cannot expand "{{${name}}}": the value of an environment variable refers to itself'
    )
