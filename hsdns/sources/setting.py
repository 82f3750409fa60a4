"""Settings of a source, as NAME=VALUE: checks their names, and converts their values.

Path: the arguments of `source NAME` and of -source -> here <- synthetic.py, replay.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hsdns.corefile.tree import Position, Token, did_you_mean


def read_settings(
    name: Token, args: Sequence[Token], settings: Mapping[str, Callable[[Token], Any]]
) -> dict[str, Any]:
    """The values given for `settings` of the source with that name; raise CorefileError."""
    values: dict[str, Any] = {}
    for token in args:
        word, equals, value = token.text.partition("=")
        read = settings.get(word)
        if read is None:
            remedy = did_you_mean(word, settings) or f"; known are {', '.join(settings)}"
            raise token.error(f'unknown setting "{word}" of source "{name.text}"{remedy}')
        if not equals:
            raise token.error(f'"{word}" has no value; write {word}=VALUE')
        if word in values:
            raise token.error(f'"{word}" is given twice; remove one of them')
        file, line, column = token.position
        values[word] = read(Token(value, Position(file, line, column + len(word) + 1)))
    return values
