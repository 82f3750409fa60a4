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
    if "{" not in text:
        return Token(text, lexeme.position, lexeme.quoted)
    lacking: dict[str, str] = {}
    text = _substitute(lexeme, text, "{%", "%}", environ, lacking)
    text = _substitute(lexeme, text, "{$", "}", environ, lacking)
    return Token(text, lexeme.position, lexeme.quoted, ", ".join(lacking.values()))


def _substitute(
    lexeme: Lexeme,
    text: str,
    start: str,
    end: str,
    environ: Mapping[str, str],
    lacking: dict[str, str],
) -> str:
    """Substitute the variables between `start` and `end`; note in `lacking` those that have no value."""
    for _ in range(_MAX_ROUNDS):
        opening = text.find(start)
        closing = text.find(end, opening) if opening >= 0 else -1
        # As in CoreDNS, an empty name (`{$}`) also ends the search for later references.
        if closing <= opening + len(start):
            return text
        reference = text[opening : closing + len(end)]
        name = reference[len(start) : -len(end)]
        value = environ.get(name, "")
        if not value:
            what = "empty" if name in environ else "not set"
            lacking[name] = f"the environment variable {name} is {what}"
        if len(text) + text.count(reference) * (len(value) - len(reference)) > _MAX_LENGTH:
            break
        text = text.replace(reference, value)
    raise lexeme.position.error(
        f'cannot expand "{lexeme.text}": the value of an environment variable refers to itself'
    )
