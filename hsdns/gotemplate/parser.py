"""Lexer and parser of templates: text to a tree.

Path: the first step, `parser -> evaluate`.
Source: Go's text/template/parse/parse.go and lex.go.
Rule 1: unknown functions and variables are errors here, before any query.
Rule 2: nesting is limited by MAX_DEPTH.
Rule 3: white space within an action is a token, because it distinguishes `.A .B` from `.A.B`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, Literal, NamedTuple

from hsdns.corefile.tree import did_you_mean
from hsdns.gotemplate import tree
from hsdns.gotemplate.tree import Node, TemplateError

MAX_LEN: Final = 10_000  # characters
Kind = Literal[
    "text", "open", "close", "space", "string", "number", "field", "variable", "name", "sign", "end"
]
KEYWORDS: Final = frozenset(
    "block break continue define else end if nil range template with".split()
)
_SPACES: Final = " \t\r\n"
_STRING: Final = re.compile(r'"((?:[^"\\\n]|\\[^\n])*)"')
_RAW: Final = re.compile(r"`([^`]*)`")
_CHAR: Final = re.compile(r"'((?:[^'\\\n]|\\[^\n])+)'")
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?)"
)
_NAME: Final = re.compile(r"[^\W\d]\w*")
_FIELD: Final = re.compile(r"\.[^\W\d]\w*")
_VARIABLE: Final = re.compile(r"\$\w*")
_SIGN: Final = re.compile(r":=|[=|(),.]")
_COMMENT: Final = re.compile(r"\{\{(-[ \t\r\n])?/\*.*?\*/([ \t\r\n]-)?\}\}", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"""\\(?:([abfnrtv\\'"])|([0-7]{3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))""",
    re.DOTALL,
)
_CONTROL: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


class Lexeme(NamedTuple):
    """A token; `value` of a string or character is its value, `text` its source."""

    kind: Kind
    text: str
    at: int
    value: str | int | float | None = None


def tokenize(text: str) -> list[Lexeme]:
    """Split a template into tokens, the last one of kind "end"; raise TemplateError."""
    if len(text) > MAX_LEN:
        raise TemplateError(f"the template has more than {MAX_LEN} characters", MAX_LEN)
    return list(_lex(text))


def _lex(text: str) -> Iterator[Lexeme]:
    at, trim = 0, False
    while True:
        start = text.find("{{", at)
        piece = text[at : start if start >= 0 else len(text)]
        comment = _COMMENT.match(text, start) if start >= 0 else None
        trims_before = (
            start >= 0
            and text[start + 2 : start + 3] == "-"
            and (text[start + 3 : start + 4] in tuple(_SPACES))
        )
        if trim:
            piece = piece.lstrip(_SPACES)
        if trims_before:
            piece = piece.rstrip(_SPACES)
        if piece:
            yield Lexeme("text", piece, at)
        if start < 0:
            yield Lexeme("end", "", len(text))
            return
        if comment is not None:
            at, trim = comment.end(), bool(comment[2])
            continue
        inside = start + (4 if trims_before else 2)
        if text.startswith("/*", inside):
            raise TemplateError("the comment is not closed, or is not alone in its action", start)
        yield Lexeme("open", "{{", start)
        at = inside
        while (end := _end(text, at)) is None:
            if at >= len(text):
                raise TemplateError("the action is not closed", start)
            lexeme, at = _one(text, at)
            yield lexeme
        yield Lexeme("close", "}}", at)
        at, trim = end


def _end(text: str, at: int) -> tuple[int, bool] | None:
    """Return the end of an action's closing delimiter here, and whether it trims the text after it."""
    if text.startswith("}}", at):
        return at + 2, False
    if text[at : at + 1] in tuple(_SPACES) and text.startswith("-}}", at + 1):
        return at + 4, True
    return None


def _one(text: str, at: int) -> tuple[Lexeme, int]:
    char = text[at]
    if char in _SPACES:
        end = at
        # The last space may belong to a trim marker.
        while text[end : end + 1] in tuple(_SPACES) and not (end > at and _end(text, end)):
            end += 1
        return Lexeme("space", text[at:end], at), end
    if char == '"':
        return _quoted(text, at, _STRING)
    if char == "`":
        raw = _RAW.match(text, at)
        if raw is None:
            raise TemplateError("the string is not closed", at)
        return Lexeme("string", raw[0], at, raw[1]), raw.end()
    if char == "'":
        lexeme, end = _quoted(text, at, _CHAR)
        assert isinstance(lexeme.value, str), "a string"
        if len(lexeme.value) != 1:
            raise TemplateError(f"{lexeme.text} is not one character", at)
        return Lexeme("number", lexeme.text, at, ord(lexeme.value)), end
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number(number, text, at)
    for kind, pattern in (("field", _FIELD), ("variable", _VARIABLE), ("name", _NAME)):
        found = pattern.match(text, at)
        if found is not None:
            _check_end(text, found.end())
            return Lexeme(kind, found[0], at), found.end()  # type: ignore[arg-type]  # three of Kind's words
    sign = _SIGN.match(text, at)
    if sign is None:
        raise TemplateError(f'"{char}" has no meaning in an action', at)
    return Lexeme("sign", sign[0], at), sign.end()


def _check_end(text: str, at: int) -> None:
    """Check the character after a word; raise TemplateError."""
    char = text[at : at + 1]
    if char and char not in " \t\r\n.,|:=)(" and not text.startswith("}}", at):
        raise TemplateError(f'"{char}" cannot follow a word', at)


def _number(found: re.Match[str], text: str, at: int) -> tuple[Lexeme, int]:
    end = found.end()
    if _NAME.match(text, end):
        raise TemplateError(f'"{text[at : end + 1]}" is not a number', at)
    digits = found[0].replace("_", "")
    try:
        value: int | float = int(digits, 0)
    except ValueError:
        try:
            value = int(digits, 8) if re.fullmatch(r"[+-]?0[0-7]+", digits) else float(digits)
        except ValueError:
            raise TemplateError(f'"{found[0]}" is not a number', at) from None
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TemplateError(f'"{found[0]}" is too large', at)
    return Lexeme("number", found[0], at, value), end


def _quoted(text: str, at: int, pattern: re.Pattern[str]) -> tuple[Lexeme, int]:
    found = pattern.match(text, at)
    if found is None:
        raise TemplateError("the string is not closed", at)
    return Lexeme(
        "string", found[0], at, _ESCAPE.sub(lambda each: _character(each, at), found[1])
    ), found.end()


def _character(escape: re.Match[str], at: int) -> str:
    control, octal, hexadecimal, short, long, other = escape.groups()
    if control:
        return _CONTROL[control]
    number = int(octal, 8) if octal else int(hexadecimal or short or long or "110000", 16)
    if other or number >= 0x110000 or 0xD800 <= number < 0xE000 or (octal and number > 255):
        raise TemplateError(
            f'"{escape[0]}" is not an escape sequence; write a backslash as "\\\\"', at
        )
    return chr(number)


MAX_DEPTH: Final = 40
_BRANCHES: Final = frozenset({"if", "with", "range"})
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "nil": None}


class Parsed(NamedTuple):
    """A template and the templates that it defines by name."""

    root: tree.Nodes
    defined: dict[str, tree.Nodes]


def parse(text: str, functions: Collection[str]) -> Parsed:
    """Parse a template with these functions; raise TemplateError."""
    parser = _Parser(tokenize(text), functions)
    root, _ = parser.nodes(top=True)
    parser.check_includes()
    return Parsed(root, parser.defined)


class _Parser:
    def __init__(self, lexemes: list[Lexeme], functions: Collection[str]) -> None:
        self._lexemes = lexemes
        self._next = 0
        self._functions = functions
        self._variables = ["$"]
        self._depth = 0
        self._ranges = 0
        self._includes: list[tree.Include] = []
        self.defined: dict[str, tree.Nodes] = {}

    @property
    def _current(self) -> Lexeme:
        return self._lexemes[self._next]

    def _is(self, kind: Kind, *texts: str) -> bool:
        return self._current.kind == kind and (not texts or self._current.text in texts)

    def _advance(self) -> Lexeme:
        current = self._current
        self._next += current.kind != "end"
        return current

    def _skip_space(self) -> None:
        while self._is("space"):
            self._advance()

    def _expect(self, kind: Kind, *texts: str) -> Lexeme:
        self._skip_space()
        if not self._is(kind, *texts):
            raise self._unexpected(" or ".join(f'"{text}"' for text in texts) or f"a {kind}")
        return self._advance()

    def _unexpected(self, wanted: str) -> TemplateError:
        current = self._current
        found = "the end" if current.kind == "end" else f'"{current.text}"'
        return TemplateError(f"found {found}, expected {wanted}", current.at)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TemplateError(f"nested more than {MAX_DEPTH} deep", self._current.at)

    def check_includes(self) -> None:
        """Check that every `{{template}}` is defined; raise TemplateError."""
        for include in self._includes:
            if include.name not in self.defined:
                raise TemplateError(
                    f'template "{include.name}" is not defined'
                    f"{did_you_mean(include.name, self.defined)}",
                    include.at,
                )

    def nodes(self, *, top: bool = False) -> tuple[tree.Nodes, str]:
        """Parse up to the action that ends this part; also return its keyword, "" at the end of the text."""
        self._enter()
        found: list[Node] = []
        at = self._current.at
        while True:
            if self._is("text"):
                lexeme = self._advance()
                found.append(tree.Text(lexeme.at, lexeme.text))
                continue
            if self._is("end"):
                if not top:
                    raise TemplateError('an "{{end}}" is missing', self._current.at)
                self._depth -= 1
                return tree.Nodes(at, tuple(found)), ""
            opened = self._advance()
            self._skip_space()
            word = self._current.text if self._is("name") else ""
            if word in ("end", "else"):
                if top:
                    raise TemplateError(f'this "{word}" ends nothing', opened.at)
                self._advance()
                self._depth -= 1
                return tree.Nodes(at, tuple(found)), word
            node = self._action(opened.at, word)
            if node is not None:
                found.append(node)

    def _action(self, at: int, word: str) -> Node | None:
        """Parse an action after its opening delimiter; None for a definition."""
        if word in _BRANCHES:
            self._advance()
            return self._branch(at, word)
        if word in ("break", "continue"):
            self._advance()
            if not self._ranges:
                raise TemplateError(f'"{word}" is not within a range', at)
            self._expect("close")
            return tree.Jump(at, word)
        if word == "template":
            self._advance()
            return self._include(at)
        if word in ("define", "block"):
            self._advance()
            return self._define(at, word)
        pipeline = self._pipeline()
        self._expect("close")
        return tree.Action(at, pipeline)

    def _branch(self, at: int, word: str) -> tree.Branch:
        known = len(self._variables)
        pipeline = self._pipeline(in_range=word == "range")
        self._expect("close")
        self._ranges += word == "range"
        body, ended = self.nodes()
        self._ranges -= word == "range"
        otherwise = None
        if ended == "else":
            self._skip_space()
            again = self._current.text if self._is("name") else ""
            if again and again == word and word in ("if", "with"):
                place = self._advance().at
                self._enter()
                chained = self._branch(place, word)
                self._depth -= 1
                del self._variables[known:]
                return tree.Branch(at, word, pipeline, body, tree.Nodes(place, (chained,)))
            self._expect("close")
            otherwise, ended = self.nodes()
            if ended != "end":
                raise TemplateError('there can be only one "{{else}}"', self._current.at)
        self._expect("close")
        del self._variables[known:]
        return tree.Branch(at, word, pipeline, body, otherwise)

    def _name_of_template(self) -> str:
        lexeme = self._expect("string")
        assert isinstance(lexeme.value, str), "a string"
        return lexeme.value

    def _include(self, at: int) -> tree.Include:
        name = self._name_of_template()
        self._skip_space()
        pipeline = None if self._is("close") else self._pipeline()
        self._expect("close")
        include = tree.Include(at, name, pipeline)
        self._includes.append(include)
        return include

    def _define(self, at: int, word: str) -> tree.Include | None:
        if word == "define" and self._depth > 1:
            raise TemplateError('"define" must be at the top level', at)
        name = self._name_of_template()
        pipeline = self._pipeline() if word == "block" else None
        self._expect("close")
        outer, self._variables = self._variables, ["$"]
        ranges, self._ranges = self._ranges, 0
        body, ended = self.nodes()
        if ended != "end":
            raise TemplateError(f'"{word}" has no "else"', at)
        self._expect("close")
        self._variables, self._ranges = outer, ranges
        if name in self.defined and word == "define":
            raise TemplateError(f'template "{name}" is defined twice', at)
        self.defined.setdefault(name, body)
        return tree.Include(at, name, pipeline) if word == "block" else None

    def _pipeline(self, *, in_range: bool = False) -> tree.Pipeline:
        self._skip_space()
        at = self._current.at
        variables, assigns = self._declaration(in_range=in_range)
        commands = [self._command()]
        while self._is("sign", "|"):
            self._advance()
            self._skip_space()
            commands.append(self._command())
        for command in commands[1:]:
            first = command.operands[0]
            if isinstance(first, tree.Constant | tree.Dot):
                raise TemplateError(f"{first} cannot take the value of a pipeline", first.at)
        self._variables += () if assigns else variables
        return tree.Pipeline(at, tuple(commands), variables, assigns)

    def _declaration(self, *, in_range: bool) -> tuple[tuple[str, ...], bool]:
        """Parse `$a :=`, `$a =`; in a range also `$a, $b :=`."""
        mark, names = self._next, []
        while self._is("variable"):
            names.append(self._advance())
            self._skip_space()
            if self._is("sign", ":=", "="):
                assigns = self._advance().text == "="
                self._skip_space()
                for name in names if assigns else ():
                    self._check_variable(name)
                return tuple(name.text for name in names), assigns
            if not (in_range and len(names) == 1 and self._is("sign", ",")):
                break
            self._advance()
            self._skip_space()
        self._next = mark
        return (), False

    def _check_variable(self, lexeme: Lexeme) -> None:
        if lexeme.text not in self._variables:
            raise TemplateError(
                f'variable "{lexeme.text}" is not known'
                f"{did_you_mean(lexeme.text, self._variables[1:])}",
                lexeme.at,
            )

    def _command(self) -> tree.Command:
        at, operands = self._current.at, []
        while True:
            self._skip_space()
            if self._is("close") or self._is("sign", "|", ")"):
                break
            operands.append(self._operand())
            if not (self._is("space") or self._is("close") or self._is("sign", "|", ")")):
                raise self._unexpected('a space, "|" or the end of the action')
        if not operands:
            raise self._unexpected("a value")
        return tree.Command(at, tuple(operands))

    def _operand(self) -> Node:
        lexeme = self._advance()
        if lexeme.kind == "name":
            return self._word(lexeme)
        if lexeme.kind in ("string", "number"):
            return tree.Constant(lexeme.at, lexeme.value, lexeme.text)
        if lexeme.kind == "field":
            return tree.Field(lexeme.at, (lexeme.text[1:], *self._fields()))
        if lexeme.kind == "variable":
            self._check_variable(lexeme)
            return tree.Variable(lexeme.at, lexeme.text, self._fields())
        if lexeme.kind == "sign" and lexeme.text == ".":
            return tree.Dot(lexeme.at)
        if lexeme.kind == "sign" and lexeme.text == "(":
            self._enter()
            inside = self._pipeline()
            self._expect("sign", ")")
            self._depth -= 1
            fields = self._fields()
            return tree.Chain(lexeme.at, inside, fields) if fields else inside
        self._next -= lexeme.kind != "end"
        raise self._unexpected("a value")

    def _word(self, lexeme: Lexeme) -> Node:
        if lexeme.text in _LITERALS:
            return tree.Constant(lexeme.at, _LITERALS[lexeme.text], lexeme.text)
        if lexeme.text in KEYWORDS:
            raise TemplateError(f'"{lexeme.text}" must begin an action', lexeme.at)
        if lexeme.text not in self._functions:
            raise TemplateError(
                f'function "{lexeme.text}" is not known{did_you_mean(lexeme.text, self._functions)}',
                lexeme.at,
            )
        return tree.Function(lexeme.at, lexeme.text)

    def _fields(self) -> tuple[str, ...]:
        """Parse `.A.B` that follows without a space."""
        names = []
        while self._is("field"):
            names.append(self._advance().text[1:])
        return tuple(names)
