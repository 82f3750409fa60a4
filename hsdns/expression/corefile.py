"""Expressions in a Corefile: the rest of a line, with the positions of errors.

Path: setup of view and template.
Rule 1: the words of a line are joined by single spaces, as CoreDNS does.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.corefile.tree import Line, Position, Token
from hsdns.expression.check import Names
from hsdns.expression.evaluate import Program, compile_expression
from hsdns.expression.fault import ExpressionError


def read_expression(line: Line, tokens: Sequence[Token], names: Names) -> Program:
    """Compile the expression in these words of a line; raise CorefileError."""
    if not tokens:
        raise line.error(f'property "{line.name.text}" needs an expression, found nothing')
    text = " ".join(token.text for token in tokens)
    try:
        return compile_expression(text, names)
    except ExpressionError as error:
        raise _position(tokens, error.at).error(f"expression: {error.message}") from None


def _position(tokens: Sequence[Token], at: int) -> Position:
    """Return the position of a character of the joined text; that of its word if the word spans several lines."""
    begin = 0
    for token in tokens:
        end = begin + len(token.text)
        if at <= end or token is tokens[-1]:
            inside = max(0, min(at, end) - begin)
            if "\n" in token.text[:inside] or "\\" in token.text[:inside]:
                return token.position
            position = token.position
            return position._replace(column=position.column + inside + token.quoted)
        begin = end + 1
    raise AssertionError("there are no words")
