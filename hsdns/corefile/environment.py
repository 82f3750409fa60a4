"""Put the environment's values into words of a Corefile: `{$NAME}` and `{%NAME%}`.

Path: stream and parser call this for each word they use; the variables are handed in.
Rule 1: a value stays inside its word: it never makes two words, a comment or a brace.
Rule 2: an unset variable is empty; a value that names variables is filled in again.
Source: replaceEnvVars in caddyfile/parse.go of the fork that CoreDNS 1.14.7 uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hsdns.corefile.lexer import Lexeme
from hsdns.corefile.tree import CorefileError, Token

# CoreDNS loops for ever where a value names itself; these stop far above any real use.
_MAX_ROUNDS: Final = 1000
_MAX_LENGTH: Final = 1 << 20


def substitute(lexeme: Lexeme, environ: Mapping[str, str]) -> Token:
    """Fill in a word's variables; raise CorefileError where that would never end."""
    text = lexeme.text
    if "{" in text:
        text = _fill_in(lexeme, text, "{%", "%}", environ)
        text = _fill_in(lexeme, text, "{$", "}", environ)
    return Token(text, lexeme.position, lexeme.quoted)


def _fill_in(lexeme: Lexeme, text: str, start: str, end: str, environ: Mapping[str, str]) -> str:
    for _ in range(_MAX_ROUNDS):
        opens = text.find(start)
        closes = text.find(end, opens) if opens >= 0 else -1
        # An empty name (`{$}`) stops the search, also for what follows it.
        if closes <= opens + len(start):
            return text
        reference = text[opens : closes + len(end)]
        value = environ.get(reference[len(start) : -len(end)], "")
        if len(text) + text.count(reference) * (len(value) - len(reference)) > _MAX_LENGTH:
            break
        text = text.replace(reference, value)
    raise CorefileError(
        lexeme.position,
        f'filling in "{lexeme.text}" from the environment never ends; a variable\'s value names itself',
    )
