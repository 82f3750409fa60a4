"""Words, environment variables and imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.lexer import (
    MAX_FILE_IMPORTS,
    MAX_SNIPPET_IMPORTS,
    MAX_WORDS,
    Lexeme,
    substitute,
    tokenize,
)
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import Corefile, CorefileError, Position

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


KNOWN = ("errors", "hosts", "log", "whoami")


class Disk:
    """Files by path, and the paths that were opened."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self.opened: list[str] = []

    def open(self, path: str) -> str:
        self.opened.append(path)
        if path.endswith("/"):
            raise IsADirectoryError(21, "Is a directory", path)
        if "secret" in path:
            raise PermissionError(13, "Permission denied", path)
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def list(self, pattern: str) -> Sequence[str]:
        start, _, end = pattern.partition("*")
        return sorted(path for path in self.files if path.startswith(start) and path.endswith(end))


def read(text: str, files: Mapping[str, str] | None = None, path: str = "Corefile") -> Corefile:
    disk = Disk(files or {})
    return parse(
        path,
        text=text,
        environ={"NAME": "s", "DIR": "conf"},
        known_directives=KNOWN,
        open_file=disk.open,
        list_files=disk.list,
    )


def words(corefile: Corefile) -> list[str]:
    """Format directives, one per line: `key: word word {prop arg; prop}`."""
    return [
        f"{block.keys[0].text}: "
        + " ".join(token.text for token in (directive.name, *directive.args))
        + "".join(
            " [" + " ".join(token.text for token in (line.name, *line.args)) + "]"
            for line in directive.lines
        )
        for block in corefile.blocks
        for directive in block.directives
    ]


SNIPPET = "(s) {\n log x\n errors\n}\n"
SPLICED = [
    pytest.param(SNIPPET + ". {\n import s\n}\n", {}, [".: log x", ".: errors"], id="snippet"),
    pytest.param(
        SNIPPET + ".\nimport s\nwhoami\n",
        {},
        [".: log x", ".: errors", ".: whoami"],
        id="no braces",
    ),
    pytest.param(
        SNIPPET + ". { import s\n}\n", {}, [".: log x", ".: errors"], id="after the block's brace"
    ),
    pytest.param(
        SNIPPET + ". {\n import {$NAME}\n}\n",
        {},
        [".: log x", ".: errors"],
        id="named by the environment",
    ),
    pytest.param(SNIPPET + '. {\n "import" "s"\n}\n', {}, [".: log x", ".: errors"], id="quoted"),
    pytest.param(
        SNIPPET + "a {\n import s\n}\nb {\n import s\n import s\n}\n",
        {},
        ["a: log x", "a: errors", "b: log x", "b: errors", "b: log x", "b: errors"],
        id="snippet several times",
    ),
    pytest.param("(s) {\n}\n. {\n import s\n log\n}\n", {}, [".: log"], id="empty snippet"),
    pytest.param(
        "(s) { log\n}\n. {\n whoami\n import s\n}\n",
        {},
        [".: whoami", ".: log"],
        id="snippet on one line",
    ),
    pytest.param(
        "(s) {\n ttl 5\n reload 1s\n}\n. {\n hosts {\n  import s\n  x\n }\n}\n",
        {},
        [".: hosts [ttl 5] [reload 1s] [x]"],
        id="snippet in a body",
    ),
    pytest.param(
        "(s) {\n ttl 5\n}\n. {\n hosts {\n  import s\n  import s\n }\n}\n",
        {},
        [".: hosts [ttl 5] [ttl 5]"],
        id="a line imported twice stays two",
    ),
    pytest.param(
        "(s) {\n ttl 5\n}\n(t) {\n import s\n x\n}\n. {\n hosts {\n  import t\n }\n}\n",
        {},
        [".: hosts [ttl 5] [x]"],
        id="snippet in a snippet in a body",
    ),
    pytest.param(
        "(t) {\n import s\n}\n(s) {\n log\n}\n. {\n import t\n}\n",
        {},
        [".: log"],
        id="defined before it is used, not before it is named",
    ),
    pytest.param(
        "(s) {\n . {\n  log\n }\n}\nimport s\n", {}, [".: log"], id="snippet of whole blocks"
    ),
    pytest.param("(s) {\n a b\n}\nimport s {\n}", {}, None, id="rest of the line"),
    pytest.param("(s) {\n a,\n b\n}\nimport s\n{\n log\n}\n", {}, ["a: log"], id="snippet of keys"),
    pytest.param(". {\n import f\n}\n", {"f": "log\nerrors"}, [".: log", ".: errors"], id="file"),
    pytest.param(". {\n import f\n whoami\n}\n", {"f": ""}, [".: whoami"], id="empty file"),
    pytest.param(
        "import f\nb {\n log\n}\n", {"f": "a {\n log\n}"}, ["a: log", "b: log"], id="file of blocks"
    ),
    pytest.param("a,\nimport f\n", {"f": "b {\n log\n}"}, ["a: log"], id="file after a comma"),
    pytest.param(
        ". {\n hosts {\n  import f\n }\n}\n",
        {"f": "ttl 5"},
        [".: hosts [ttl 5]"],
        id="file in a body",
    ),
    pytest.param(
        ". {\n hosts {\n  import f\n}\n",
        {"f": "ttl 5\n}\nlog"},
        [".: hosts [ttl 5]", ".: log"],
        id="file that closes a body",
    ),
    pytest.param(
        ". {\n import {$DIR}/f\n}\n",
        {"conf/f": "log"},
        [".: log"],
        id="folder from the environment",
    ),
    pytest.param(
        ". {\n import conf/f\n}\n",
        {
            "conf/f": "import sub/g\n",
            "conf/sub/g": "import h\nimport /abs",
            "conf/sub/h": "log",
            "/abs": "errors",
        },
        [".: log", ".: errors"],
        id="relative to the importing file",
    ),
    pytest.param(
        "import conf/f\n. {\n import s\n}\n",
        {"conf/f": "(s) {\n import g\n}", "conf/g": "log"},
        [".: log"],
        id="a snippet's imports are relative to its file",
    ),
    pytest.param(
        "import f\n. {\n import s\n}\n",
        {"f": SNIPPET},
        [".: log x", ".: errors"],
        id="file of snippets",
    ),
    pytest.param(
        SNIPPET + "import f\n",
        {"f": ". {\n import s\n}"},
        [".: log x", ".: errors"],
        id="snippet used in a file",
    ),
    pytest.param(
        "import c*.x\n",
        {"c2.x": "b {\n log\n}", "c1.x": "a {\n log\n}", "d.x": "("},
        ["a: log", "b: log"],
        id="glob",
    ),
    pytest.param(
        SNIPPET + ". {\n import s\n}\n",
        {"s": "whoami"},
        [".: log x", ".: errors"],
        id="a snippet wins over a file",
    ),
]


@pytest.mark.parametrize(("text", "files", "expected"), SPLICED)
def test_spliced(text: str, files: Mapping[str, str], expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(CorefileError):
            read(text, files)
    else:
        corefile = read(text, files)
        assert words(corefile) == expected
        assert corefile.warnings == ()


ERRORS = [
    pytest.param(
        ". {\n import\n}\n",
        {},
        "Corefile:2:2: import takes the name of a snippet, file or glob, found none",
        id="no argument",
    ),
    pytest.param(
        ". {\n import",
        {},
        "Corefile:2:2: import takes the name of a snippet, file or glob, found none",
        id="no argument at the end",
    ),
    pytest.param(
        ". {\n import {$UNSET}\n}\n",
        {},
        "Corefile:2:9: import takes the name of a snippet, file or glob, found an empty one"
        " (the environment variable UNSET is not set)",
        id="empty argument",
    ),
    pytest.param(
        ". {\n import a b\n}\n",
        {},
        'Corefile:2:11: import takes one argument, also found "b"; write one import per line',
        id="two arguments",
    ),
    pytest.param(
        ". { import s }",
        {},
        'Corefile:1:14: import takes one argument, also found "}"; write one import per line',
        id="block on one line",
    ),
    pytest.param(
        "import nosuch\n",
        {},
        'Corefile:1:8: nothing to import: there is no snippet "(nosuch)" and no file nosuch',
        id="nothing",
    ),
    pytest.param(
        "(common) {\n}\nimport comon\n",
        {},
        'Corefile:3:8: nothing to import: there is no snippet "(comon)" and no file comon; did you mean "common"?',
        id="typing error",
    ),
    pytest.param(
        ". {\n import s\n}\n(s) {\n}\n",
        {},
        'Corefile:2:9: snippet "(s)" must be defined before it is imported; move it up from Corefile:4:1',
        id="defined below",
    ),
    pytest.param(
        "(s) {\n}\n(s) {\n}\n",
        {},
        'Corefile:3:1: snippet "(s)" is defined twice; rename or remove this one',
        id="defined twice",
    ),
    pytest.param(
        "(s) {\n import s\n}\n",
        {},
        'Corefile:2:9: snippet "(s)" imports itself; remove this line',
        id="imports itself",
    ),
    pytest.param(
        "(s) {\n x import s\n import {$NAME}\n}\n",
        {},
        'Corefile:3:9: snippet "(s)" imports itself; remove this line',
        id="imports itself by the environment",
    ),
    pytest.param(
        "(s) {\n import t\n}\n(t) {\n log\n import s\n}\n. {\n import s\n}\n",
        {},
        "Corefile:6:9: (s) imports itself through (t); remove one of the imports",
        id="two snippets in a circle",
    ),
    pytest.param(
        "import f\n",
        {"f": "import g", "g": "import f"},
        "g:1:8: f imports itself through g; remove one of the imports",
        id="two files in a circle",
    ),
    pytest.param(
        "import Corefile\n",
        {"Corefile": "import ./Corefile"},
        "Corefile:1:8: Corefile imports itself; remove one of the imports",
        id="the file itself",
    ),
    pytest.param(
        "import *\n",
        {"a": "", "Corefile": ""},
        "Corefile:1:8: Corefile imports itself; remove one of the imports",
        id="glob with the file itself",
    ),
    pytest.param(
        "import a*b*\n",
        {},
        'Corefile:1:8: import pattern "a*b*" may have one "*" and one "?", and no brackets',
        id="two stars",
    ),
    pytest.param(
        "import a?b?\n",
        {},
        'Corefile:1:8: import pattern "a?b?" may have one "*" and one "?", and no brackets',
        id="two question marks",
    ),
    pytest.param(
        "import a[12]\n",
        {},
        'Corefile:1:8: import pattern "a[12]" may have one "*" and one "?", and no brackets',
        id="brackets",
    ),
    pytest.param(
        "import conf/\n",
        {},
        'Corefile:1:8: cannot import "conf": it is a folder; import its files, such as "conf/*.conf"',
        id="folder",
    ),
    pytest.param(
        "import secret\n",
        {},
        'Corefile:1:8: cannot import "secret": Permission denied',
        id="permission",
    ),
    pytest.param(
        "import f\n",
        {"f": "\n. {\n lgo\n}"},
        'f:3:2: unknown directive "lgo"; did you mean "log"?',
        id="error in the file",
    ),
    pytest.param(
        ". {\n hosts {\n  import f\n }\n}\n",
        {"f": "a {\n}"},
        'f:1:3: "hosts" has no braces within its braces; is a "}" missing above?',
        id="braces in a body's file",
    ),
    pytest.param(
        ". {\n import f\n",
        {"f": 'log "a'},
        'Corefile:1:3: the "{" of the server block is never closed; '
        'add a "}" on a line of its own, or close the quote at f:1:5',
        id="unclosed quote in the file",
    ),
]


@pytest.mark.parametrize(("text", "files", "message"), ERRORS)
def test_errors(text: str, files: Mapping[str, str], message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read(text, files)
    assert str(caught.value) == message


def test_a_glob_without_files_is_a_warning() -> None:
    corefile = read("import zones/*\n. {\n log\n}\n", path="conf/Corefile")
    assert words(corefile) == [".: log"]
    assert corefile.warnings == (
        'conf/Corefile:1:8: no file matches import pattern "zones/*" (looked for conf/zones/*)',
    )


def test_a_file_is_read_once() -> None:
    disk = Disk({"f": "log"})
    parse(
        "Corefile",
        text="a {\n import f\n}\nb {\n import f\n}\n",
        environ={},
        known_directives=KNOWN,
        open_file=disk.open,
        list_files=disk.list,
    )
    assert disk.opened == ["f"]


def chain(word: str, depth: int, width: int) -> str:
    """Snippets that each import the previous one several times, which gives width ** depth words."""
    text = f"(s0) {{\n {word}\n}}\n"
    for level in range(1, depth + 1):
        text += f"(s{level}) {{\n" + f" import s{level - 1}\n" * width + "}\n"
    return text + f". {{\n import s{depth}\n}}\n"


@pytest.mark.parametrize(
    ("text", "files", "end"),
    [
        pytest.param(
            chain("log", 5, 10),
            {},
            f"more than {MAX_SNIPPET_IMPORTS} imports of snippets; do they import each other?",
            id="snippets",
        ),
        pytest.param(
            chain("log" + " x" * 1000, 4, 8),
            {},
            f"the Corefile and its imports have more than {MAX_WORDS} words",
            id="words",
        ),
        pytest.param(
            "import a\n",
            {"a": "import b\n" * 50, "b": "import c\n" * 50, "c": "import d\n" * 50, "d": ""},
            f"more than {MAX_FILE_IMPORTS} imports of files; do they import each other?",
            id="files",
        ),
    ],
)
def test_imports_are_bounded(text: str, files: Mapping[str, str], end: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read(text, files)
    assert caught.value.message == end
