"""Lexer and parser of expressions: text to a syntax tree.

Path: the first step, `parser -> compiler`.
Source: expr-lang/expr 1.17 parser/lexer, parser/parser.go and parser/operator.
Rule 1: nesting and the number of operators are limited, so that no text reaches Python's recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hsdns.expression import tree
from hsdns.expression.reading import (
    ESCAPE,
    MAX_LEN,
    Cursor,
    Lexeme,
    read_number,
    unescape,
    why_no_token,
)
from hsdns.expression.tree import ExpressionError, Node

WORDS: Final = frozenset("in or and not matches contains startsWith endsWith let if else".split())
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>'(?:[^'\\\n]|\\[^\n])*'|"(?:[^"\\\n]|\\[^\n])*"|`(?:[^`]|``)*`(?!`))
    |(?P<bytes>[bB]['"])
    |(?P<bracket>[()\[\]{}])
    |(?P<number>0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+
        |(?:[0-9][0-9_]*(?:\.(?!\.)[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?)(?P<rest>[\w$])?
    |(?P<name>[^\W\d]\w*|\$\w*)
    |(?P<operator>\*\*|&&|\|\||==|!=|<=|>=|\.\.|\?\.|\?\?|::|[-+*/%^<>=!|?:.,;\#&])""",
    re.DOTALL | re.VERBOSE,
)


def tokenize(text: str) -> list[Lexeme]:
    """Split an expression into tokens, the last one of kind "end"; raise ExpressionError."""
    if len(text) > MAX_LEN:
        raise ExpressionError(f"the expression has more than {MAX_LEN} characters", MAX_LEN)
    found: list[Lexeme] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(why_no_token(text, at, "expression"), at)
        if match["space"] is None:
            found.append(_lexeme(match))
        at = match.end()
    found.append(Lexeme("end", "", at))
    return found


def _lexeme(found: re.Match[str]) -> Lexeme:
    kind, text, at = found.lastgroup or "", found[0], found.start()
    if kind == "rest":
        raise ExpressionError(f'"{text}" is not a number', at)
    if kind == "bytes":
        raise ExpressionError("byte literals are not supported; write a string", at)
    if text == "/" and found.string.startswith("/*", at):
        raise ExpressionError("the comment is not closed", at)
    if kind == "number":
        return Lexeme(kind, text, at, _number(text, at))
    if kind == "string":
        return Lexeme(kind, _string(text, at), at)
    return Lexeme("operator" if text in WORDS else kind, text, at)


def _number(text: str, at: int) -> int | float:
    value = read_number(text, 10)
    if value is None:
        raise ExpressionError(f'"{text}" is not a number', at)
    if (isinstance(value, int) and value >= 2**63) or value == float("inf"):
        raise ExpressionError(f'"{text}" is too large', at)
    return value


def _string(text: str, at: int) -> str:
    """Return the value of a string; in backticks a double backtick is a backtick."""
    quote, inside = text[0], text[1:-1]

    def character(found: re.Match[str]) -> str:
        made = unescape(found)
        if made is None or (found[1] in ("'", '"') and found[1] != quote):
            raise ExpressionError(
                f'"{found[0][:2]}" is not an escape sequence; write a backslash as "\\\\"',
                at + 1 + found.start(),
            )
        return made

    return inside.replace("``", "`") if quote == "`" else ESCAPE.sub(character, inside)


MAX_OPERATORS: Final = 300  # in the whole expression
_UNARY: Final = {"not": 50, "!": 50, "-": 90, "+": 90}
_BINARY: Final = {
    "|": 0, "or": 10, "||": 10, "and": 15, "&&": 15, "==": 20, "!=": 20, "<": 20, ">": 20, ">=": 20, "<=": 20,
    "in": 20, "matches": 20, "contains": 20, "startsWith": 20, "endsWith": 20, "..": 25, "+": 30, "-": 30, "*": 60,
    "/": 60, "%": 60, "**": 100, "^": 100, "??": 500,
}  # fmt: skip
_RIGHT: Final = frozenset({"**", "^"})
_COMPARISONS: Final = frozenset({"<", ">", "<=", ">="})
_NEGATED: Final = frozenset({"in", "matches", "contains", "startsWith", "endsWith"})
# Functions whose second argument is evaluated for each element; True if it is optional.
PREDICATES: Final = {
    "all": False, "none": False, "any": False, "one": False, "filter": False, "map": False, "count": True, "sum": True,
    "find": False, "findIndex": False, "findLast": False, "findLastIndex": False, "groupBy": False, "sortBy": False,
    "reduce": False,
}  # fmt: skip
_WITH_THIRD: Final = frozenset({"sortBy", "reduce"})
_LITERALS: Final[dict[str, object]] = {"true": True, "false": False, "nil": None}


def parse(text: str) -> Node:
    """Parse an expression; raise ExpressionError."""
    parser = _Parser(tokenize(text))
    node = parser.sequence()
    parser.expect("end")
    return node


class _Parser(Cursor):
    error = ExpressionError

    def __init__(self, lexemes: list[Lexeme]) -> None:
        super().__init__(lexemes)
        self._predicates = 0
        self._operators = 0

    def _count_operator(self) -> None:
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            raise ExpressionError(f"more than {MAX_OPERATORS} operators", self._current.at)

    def sequence(self) -> Node:
        """Parse `a; b`, or a single expression."""
        parts = [self.expression()]
        while self._accept("operator", ";"):
            if self._is("end"):
                break
            parts.append(self.expression())
        return parts[0] if len(parts) == 1 else tree.Sequence(parts[0].at, tuple(parts))

    def expression(self, precedence: int = 0) -> Node:
        """Parse operators of at least this precedence, and their operands."""
        with self._nested():
            return self._expression(precedence)

    def _expression(self, precedence: int) -> Node:
        if precedence == 0 and self._is("operator", "let"):
            return self._let()
        if precedence == 0 and self._is("operator", "if"):
            return self._if()
        left = self._primary()
        before = ""
        while self._is("operator"):
            mark = self._next
            negated = self._advance() if self._is("operator", "not") else None
            if negated is not None and not self._is("operator", *_NEGATED):
                raise self._unexpected("in, matches, contains, startsWith or endsWith")
            operator = self._current
            binding = _BINARY.get(operator.text, -1)
            if operator.kind != "operator" or binding < precedence:
                self._next = mark
                break
            self._advance()
            self._count_operator()
            if operator.text == "|":
                name = self.expect("name")
                left = self._postfix(self._call(name, [left]))
            elif before == "??" and operator.text != "??":
                raise ExpressionError(
                    f'"{operator.text}" and "??" need brackets around one of them', operator.at
                )
            elif operator.text in _COMPARISONS:
                left = self._comparison(left, operator, binding)
            else:
                right = self.expression(binding + (operator.text not in _RIGHT))
                left = tree.Binary(operator.at, operator.text, left, right)
                if negated is not None:
                    left = tree.Unary(negated.at, "not", left)
            before = operator.text
        return self._conditional(left) if precedence == 0 else left

    def _comparison(self, left: Node, operator: Lexeme, binding: int) -> Node:
        """Parse `a < b`; `a < b < c` means `a < b and b < c`."""
        whole: Node | None = None
        while True:
            right = self.expression(binding + 1)
            self._count_operator()
            one = tree.Binary(operator.at, operator.text, left, right)
            whole = one if whole is None else tree.Binary(operator.at, "&&", whole, one)
            if not self._is("operator", *_COMPARISONS):
                return whole
            left, operator = right, self._advance()

    def _conditional(self, node: Node) -> Node:
        while self._is("operator", "?"):
            at = self._advance().at
            self._count_operator()
            if self._accept("operator", ":"):
                node = tree.Conditional(at, node, node, self.expression())
                continue
            then = self.expression()
            self.expect("operator", ":")
            node = tree.Conditional(at, node, then, self.expression())
        return node

    def _let(self) -> Node:
        self._advance()
        name = self.expect("name")
        self.expect("operator", "=")
        value = self.expression()
        self.expect("operator", ";")
        return tree.Let(name.at, name.text, value, self.sequence())

    def _if(self) -> Node:
        at = self._advance().at
        condition = self.expression()
        then = self._braced()
        self.expect("operator", "else")
        if self._is("operator", "if"):
            with self._nested():
                otherwise = self._if()
        else:
            otherwise = self._braced()
        return tree.Conditional(at, condition, then, otherwise)

    def _braced(self) -> Node:
        self.expect("bracket", "{")
        node = self.sequence()
        self.expect("bracket", "}")
        return node

    def _primary(self) -> Node:
        lexeme = self._current
        if lexeme.kind == "operator" and lexeme.text in _UNARY:
            self._advance()
            operand = self.expression(_UNARY[lexeme.text])
            return self._postfix(tree.Unary(lexeme.at, lexeme.text, operand))
        if self._accept("bracket", "("):
            node = self.sequence()
            self.expect("bracket", ")")
            return self._postfix(node)
        if self._predicates and self._is("operator", "#", "."):
            return self._pointer()
        if self._accept("operator", "::"):
            return self._postfix(self._call(self.expect("name"), []))
        return self._secondary()

    def _pointer(self) -> Node:
        """Parse `#`, `#name`, or `.name`, a member of `#`."""
        lexeme, name = self._current, ""
        if lexeme.text == "#":
            self._advance()
            if self._is("name") and self._current.at == lexeme.at + 1:
                name = self._advance().text
        return self._postfix(tree.Pointer(lexeme.at, name))

    def _secondary(self) -> Node:
        lexeme = self._current
        if lexeme.kind == "name":
            self._advance()
            if lexeme.text in _LITERALS:
                return tree.Literal(lexeme.at, _LITERALS[lexeme.text])
            if self._is("bracket", "("):
                return self._postfix(self._call(lexeme, []))
            return self._postfix(tree.Identifier(lexeme.at, lexeme.text))
        if lexeme.kind == "number":
            return tree.Literal(lexeme.at, self._advance().value)
        if lexeme.kind == "string":
            return self._postfix(tree.Literal(self._advance().at, lexeme.text))
        if self._is("bracket", "["):
            at = self._advance().at
            items = tuple(self.expression() for _ in self._elements("]"))
            return self._postfix(tree.Array(at, items))
        if self._is("bracket", "{"):
            return self._postfix(self._map())
        raise self._unexpected("a value")

    def _call(self, name: Lexeme, arguments: list[Node]) -> Node:
        """Parse a function's arguments; in a pipe the first one is passed in."""
        self.expect("bracket", "(")
        for _ in self._elements(")"):
            if name.text in PREDICATES and len(arguments) == 1:
                arguments.append(self._predicate())
            else:
                arguments.append(self.expression())
        if name.text in PREDICATES:
            at_least = 1 if PREDICATES[name.text] else 2
            at_most = 3 if name.text in _WITH_THIRD else 2
            if not at_least <= len(arguments) <= at_most:
                raise ExpressionError(
                    f"{name.text} takes {at_least} to {at_most} arguments, found {len(arguments)}"
                    if at_least != at_most
                    else f"{name.text} takes {at_least} arguments, found {len(arguments)}",
                    name.at,
                )
        return tree.Call(name.at, name.text, tuple(arguments))

    def _predicate(self) -> Node:
        at = self._current.at
        self._predicates += 1
        body = self._braced() if self._is("bracket", "{") else self.expression()
        self._predicates -= 1
        return tree.Predicate(at, body)

    def _elements(self, closing: str) -> Iterator[None]:
        """Yield before each element up to a closing bracket; a comma may follow the last one."""
        while not self._is("bracket", closing):
            yield
            if not self._is("bracket", closing):
                self.expect("operator", ",")
        self.expect("bracket", closing)

    def _map(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        at = self._advance().at
        for _ in self._elements("}"):
            key: Node
            if self._is("number") or self._is("string") or self._is("name"):
                key = tree.Literal(self._current.at, self._advance().text)
            elif self._is("bracket", "("):
                key = self.expression()
            else:
                raise self._unexpected("a key: a name, a string, a number or (EXPRESSION)")
            self.expect("operator", ":")
            pairs.append((key, self.expression()))
        return tree.Map(at, tuple(pairs))

    def _postfix(self, node: Node) -> Node:
        chained = False
        while True:
            optional = self._is("operator", "?.")
            if optional or self._is("operator", ".") or self._is("bracket", "["):
                self._count_operator()
            if optional or self._is("operator", "."):
                self._advance()
                chained = chained or optional
                if not (optional and self._is("bracket", "[")):
                    key = self._advance()
                    if key.kind != "name" and not (key.kind == "operator" and key.text.isalpha()):
                        raise ExpressionError("a name must follow the dot", key.at)
                    if self._is("bracket", "("):
                        raise ExpressionError(f'there is no method "{key.text}"', key.at)
                    node = tree.Member(key.at, node, tree.Literal(key.at, key.text), optional)
                    continue
            if not self._is("bracket", "["):
                return tree.Chain(node.at, node) if chained else node
            at = self._advance().at
            node = self._index(node, at, optional=optional)

    def _index(self, node: Node, at: int, *, optional: bool) -> Node:
        start = None if self._is("operator", ":") else self.expression()
        if not self._accept("operator", ":"):
            assert start is not None, "parsed above"
            self.expect("bracket", "]")
            return tree.Member(at, node, start, optional)
        end = None if self._is("bracket", "]") else self.expression()
        self.expect("bracket", "]")
        return tree.Slice(at, node, start, end)
