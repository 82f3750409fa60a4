"""Substitution of environment variables in the words of a Corefile: `{$NAME}` and `{%NAME%}`.

Path: stream and parser call it for each word they use.
Rule 1: a value never splits its word and never starts a comment or a block.
Rule 2: an unset variable is empty; references within a value are substituted too.
Source: replaceEnvVars in caddyfile/parse.go of the fork that CoreDNS 1.14.7 uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hsdns.corefile.lexer import Lexeme
from hsdns.corefile.tree import Token

# CoreDNS loops forever if a value refers to itself; these limits are far above any real use.
_MAX_ROUNDS: Final = 1000
_MAX_LENGTH: Final = 1 << 20


def substitute(lexeme: Lexeme, environ: Mapping[str, str]) -> Token:
    """Substitute a word's variables; raise CorefileError if a value refers to itself."""
    text = lexeme.text
    if "{" in text:
        text = _substitute(lexeme, text, "{%", "%}", environ)
        text = _substitute(lexeme, text, "{$", "}", environ)
    return Token(text, lexeme.position, lexeme.quoted)


def _substitute(lexeme: Lexeme, text: str, start: str, end: str, environ: Mapping[str, str]) -> str:
    for _ in range(_MAX_ROUNDS):
        opening = text.find(start)
        closing = text.find(end, opening) if opening >= 0 else -1
        # As in CoreDNS, an empty name (`{$}`) also ends the search for later references.
        if closing <= opening + len(start):
            return text
        reference = text[opening : closing + len(end)]
        value = environ.get(reference[len(start) : -len(end)], "")
        if len(text) + text.count(reference) * (len(value) - len(reference)) > _MAX_LENGTH:
            break
        text = text.replace(reference, value)
    raise lexeme.position.error(
        f'cannot expand "{lexeme.text}": the value of an environment variable refers to itself'
    )
