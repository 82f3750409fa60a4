"""Lexer and parser of templates: text to a tree.

Path: the first step, `parser -> evaluate`.
Source: Go's text/template/parse/parse.go and lex.go.
Rule 1: unknown functions and variables are errors here, before any query.
Rule 2: nesting is limited.
Rule 3: white space within an action is a token, because it distinguishes `.A .B` from `.A.B`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from hsdns.corefile.tree import did_you_mean
from hsdns.expression.reading import (
    ESCAPE,
    MAX_LEN,
    Cursor,
    Lexeme,
    read_number,
    unescape,
    why_no_token,
)
from hsdns.gotemplate import tree
from hsdns.gotemplate.tree import Node, TemplateError

KEYWORDS: Final = frozenset(
    "block break continue define else end if nil range template with".split()
)
_SPACES: Final = " \t\r\n"
_OPEN: Final = re.compile(r"\{\{(-(?=[ \t\r\n]))?")
_CLOSE: Final = re.compile(r"([ \t\r\n]-)?\}\}")
_COMMENT: Final = re.compile(r"\{\{(-[ \t\r\n])?/\*.*?\*/([ \t\r\n]-)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n](?:(?![ \t\r\n]-\}\})[ \t\r\n])*)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*"|`[^`]*`)
    |(?P<character>'(?:[^'\\\n]|\\[^\n])+')
    |(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+
        |(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?))(?P<rest>[^\W\d])?
    |(?P<field>\.[^\W\d]\w*)
    |(?P<variable>\$\w*)
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>:=|[=|(),.])""",
    re.VERBOSE,
)


def tokenize(text: str) -> list[Lexeme]:
    """Split a template into tokens, the last one of kind "end"; raise TemplateError."""
    if len(text) > MAX_LEN:
        raise TemplateError(f"the template has more than {MAX_LEN} characters", MAX_LEN)
    return list(_lex(text))


def _lex(text: str) -> Iterator[Lexeme]:
    at, trims = 0, False
    while True:
        opened = _OPEN.search(text, at)
        start = len(text) if opened is None else opened.start()
        piece = text[at:start].lstrip(_SPACES if trims else "")
        piece = piece.rstrip(_SPACES if opened is not None and opened[1] else "")
        if piece:
            yield Lexeme("text", piece, at)
        if opened is None:
            yield Lexeme("end", "", len(text))
            return
        comment = _COMMENT.match(text, start)
        if comment is not None:
            at, trims = comment.end(), bool(comment[2])
            continue
        at = opened.end() + bool(opened[1])
        if text.startswith("/*", at):
            raise TemplateError("the comment is not closed, or is not alone in its action", start)
        yield Lexeme("open", "{{", start)
        while (closed := _CLOSE.match(text, at)) is None:
            if at >= len(text):
                raise TemplateError("the action is not closed", start)
            found = _TOKEN.match(text, at)
            if found is None:
                raise TemplateError(why_no_token(text, at, "action"), at)
            yield _lexeme(found)
            at = found.end()
        yield Lexeme("close", "}}", at)
        at, trims = closed.end(), bool(closed[1])


def _lexeme(found: re.Match[str]) -> Lexeme:
    kind, text, at = found.lastgroup or "", found[0], found.start()
    if kind == "rest":
        raise TemplateError(f'"{text}" is not a number', at)
    if kind == "number":
        return Lexeme(kind, text, at, _number(text, at))
    if kind in ("string", "character"):
        value = (
            text[1:-1]
            if text[0] == "`"
            else ESCAPE.sub(lambda each: _character(each, at), text[1:-1])
        )
        if kind == "string":
            return Lexeme(kind, text, at, value)
        if len(value) != 1:
            raise TemplateError(f"{text} is not one character", at)
        return Lexeme("number", text, at, ord(value))
    if kind in ("field", "variable", "name"):
        after = found.string[found.end() : found.end() + 1]
        if after not in " \t\r\n.,|:=)(" and not found.string.startswith("}}", found.end()):
            raise TemplateError(f'"{after}" cannot follow a word', found.end())
    return Lexeme(kind, text, at)


def _number(text: str, at: int) -> int | float:
    value = read_number(text, 8)
    if value is None:
        raise TemplateError(f'"{text}" is not a number', at)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TemplateError(f'"{text}" is too large', at)
    return value


def _character(found: re.Match[str], at: int) -> str:
    made = unescape(found)
    if made is None or found[6]:  # \u{...} is of expressions alone
        raise TemplateError(
            f'"{found[0]}" is not an escape sequence; write a backslash as "\\\\"', at
        )
    return made


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


class _Parser(Cursor):
    error = TemplateError

    def __init__(self, lexemes: list[Lexeme], functions: Collection[str]) -> None:
        super().__init__(lexemes)
        self._functions = functions
        self._variables = ["$"]
        self._ranges = 0
        self._includes: list[tree.Include] = []
        self.defined: dict[str, tree.Nodes] = {}

    def _skip_space(self) -> None:
        while self._accept("space"):
            pass

    def expect(self, kind: str, *texts: str) -> Lexeme:
        """Consume this token and spaces before it."""
        self._skip_space()
        return super().expect(kind, *texts)

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
        with self._nested():
            return self._nodes(top=top)

    def _nodes(self, *, top: bool) -> tuple[tree.Nodes, str]:
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
                return tree.Nodes(at, tuple(found)), ""
            opened = self._advance()
            self._skip_space()
            word = self._current.text if self._is("name") else ""
            if word in ("end", "else"):
                if top:
                    raise TemplateError(f'this "{word}" ends nothing', opened.at)
                self._advance()
                return tree.Nodes(at, tuple(found)), word
            node = self._action(opened.at, word)
            if node is not None:
                found.append(node)

    def _action(self, at: int, word: str) -> Node | None:
        """Parse an action after its opening delimiter; None for a definition."""
        if word in (*_BRANCHES, "break", "continue", "template", "define", "block"):
            self._advance()
        if word in _BRANCHES:
            return self._branch(at, word)
        if word in ("break", "continue"):
            if not self._ranges:
                raise TemplateError(f'"{word}" is not within a range', at)
            self.expect("close")
            return tree.Jump(at, word)
        if word == "template":
            return self._include(at)
        if word in ("define", "block"):
            return self._define(at, word)
        pipeline = self._pipeline()
        self.expect("close")
        return tree.Action(at, pipeline)

    def _branch(self, at: int, word: str) -> tree.Branch:
        known = len(self._variables)
        pipeline = self._pipeline(in_range=word == "range")
        self.expect("close")
        self._ranges += word == "range"
        body, ended = self.nodes()
        self._ranges -= word == "range"
        otherwise = None
        if ended == "else":
            self._skip_space()
            again = self._current.text if self._is("name") else ""
            if again and again == word and word in ("if", "with"):
                place = self._advance().at
                with self._nested():
                    chained = self._branch(place, word)
                del self._variables[known:]
                return tree.Branch(at, word, pipeline, body, tree.Nodes(place, (chained,)))
            self.expect("close")
            otherwise, ended = self.nodes()
            if ended != "end":
                raise TemplateError('there can be only one "{{else}}"', self._current.at)
        self.expect("close")
        del self._variables[known:]
        return tree.Branch(at, word, pipeline, body, otherwise)

    def _name_of_template(self) -> str:
        lexeme = self.expect("string")
        assert isinstance(lexeme.value, str), "a string"
        return lexeme.value

    def _include(self, at: int) -> tree.Include:
        name = self._name_of_template()
        self._skip_space()
        pipeline = None if self._is("close") else self._pipeline()
        self.expect("close")
        include = tree.Include(at, name, pipeline)
        self._includes.append(include)
        return include

    def _define(self, at: int, word: str) -> tree.Include | None:
        if word == "define" and self._depth > 1:
            raise TemplateError('"define" must be at the top level', at)
        name = self._name_of_template()
        pipeline = self._pipeline() if word == "block" else None
        self.expect("close")
        outer, self._variables = self._variables, ["$"]
        ranges, self._ranges = self._ranges, 0
        body, ended = self.nodes()
        if ended != "end":
            raise TemplateError(f'"{word}" has no "else"', at)
        self.expect("close")
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
            with self._nested():
                inside = self._pipeline()
                self.expect("sign", ")")
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
