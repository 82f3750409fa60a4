import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.lexer import tokenize

WORDS = [
    pytest.param("", [], id="nothing"),
    pytest.param(" \t\n\r\n", [], id="white space only"),
    pytest.param("a b\tc\nd", ["a", "b", "c", "d"], id="words"),
    pytest.param("\ufeffa \ufeffb", ["a", "\ufeffb"], id="byte order mark, only the first"),
    pytest.param("a\r\nb\rc\r", ["a", "bc"], id="carriage returns are dropped, not separators"),
    pytest.param("a\u00a0b\u2003c\u0085d", ["a", "b", "c", "d"], id="wide white space"),
    pytest.param("a\x1cb", ["a\x1cb"], id="file separator is no white space"),
    pytest.param("# a b\nc", ["c"], id="comment line"),
    pytest.param("a # b c\nd", ["a", "d"], id="comment after a word"),
    pytest.param("a#b\nc", ["a", "c"], id="glued comment"),
    pytest.param("a#b c d\ne", ["a", "c", "d", "e"], id="glued comment ends at white space"),
    pytest.param('"a b" c', ["a b", "c"], id="quoted"),
    pytest.param('""', [""], id="empty quoted word"),
    pytest.param('"a"b"c', ["a", 'b"c'], id="quotes within a word are ordinary"),
    pytest.param(r'"a\"b"', ['a"b'], id="escaped quote"),
    pytest.param(r'"^\d\.\\$"', [r"^\d\.\\$"], id="other backslashes stay"),
    pytest.param(r'"a\\" b', [r"a\\", "b"], id="backslash before a backslash"),
    pytest.param(r"a\ b", ["a\\", "b"], id="no escape outside quotes"),
    pytest.param("'a b'", ["'a", "b'"], id="single quotes are ordinary"),
    pytest.param('"a#b" #c', ["a#b"], id="hash in quotes"),
    pytest.param('"a\nb" c', ["a\nb", "c"], id="newline in quotes"),
    pytest.param('"a b\nc', ["a b\nc"], id="unclosed quote"),
    pytest.param('a "', ["a"], id="unclosed quote without text"),
    pytest.param('"a\\', ["a"], id="unclosed quote ending in a backslash"),
    pytest.param('"\\', [], id="unclosed quote with a backslash only"),
    pytest.param("{{ }} {} {$A}", ["{{", "}}", "{}", "{$A}"], id="braces are ordinary"),
]


@pytest.mark.parametrize(("text", "expected"), WORDS)
def test_words(text: str, expected: list[str]) -> None:
    assert [lexeme.text for lexeme in tokenize(text, "Corefile")] == expected


ANY_TEXT = st.text(st.sampled_from('ab"\\#{}\n\r\t \u2003\ufeff') | st.characters(), max_size=60)


def one_by_one(text: str) -> list[tuple[str, int]]:
    """Split a text character by character, directly by the rules."""
    words: list[tuple[str, int]] = []
    word, line, start = "", 1, 1
    mode = "gap"  # gap, comment, word, hidden, quote, escape
    for char in text.removeprefix("\ufeff"):
        space = (
            char in "\t\n\v\f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
            or "\u2000" <= char <= "\u200a"
        )
        if mode == "quote":
            if char == '"':
                words.append((word, start))
                mode = "gap"
            elif char == "\\":
                mode = "escape"
            else:
                word += char
        elif mode == "escape":
            word += char if char == '"' else "\\" + char
            mode = "quote"
        elif mode == "comment":
            mode = "gap" if char == "\n" else mode
        elif char == "\r":
            pass
        elif space:
            if mode in ("word", "hidden"):
                words.append((word, start))
            mode = "gap"
        elif mode == "hidden":
            pass
        elif char == "#":
            mode = "comment" if mode == "gap" else "hidden"
        elif mode == "gap":
            word, start, mode = ("", line, "quote") if char == '"' else (char, line, "word")
        else:
            word += char
        line += char == "\n"
    if mode in ("word", "hidden") or (mode in ("quote", "escape") and word):
        words.append((word, start))
    return words


@given(ANY_TEXT)
def test_agrees_with_reading_one_character_at_a_time(text: str) -> None:
    assert [(word.text, word.position.line) for word in tokenize(text, "Corefile")] == one_by_one(
        text
    )
