"""Sources of cluster objects, one per module.

Path: the Corefile property `source NAME ARGUMENT...` -> source_from -> the source's setup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from hsdns.corefile.tree import Position, Token, did_you_mean

if TYPE_CHECKING:
    from hsdns.cluster.source import NamedSource


# The source classes, each in the module of its name, which is imported when it is used.
SOURCES: Final = {"manifests": "Manifests", "replay": "Replay", "synthetic": "Synthetic"}


def source_from(name: Token, args: Sequence[Token], base_dir: str) -> NamedSource:
    """Create the source with that name; raise CorefileError.  Paths are relative to `base_dir`."""
    if name.text == "kubeconfig":
        raise name.error(
            '"kubeconfig" is a property, not a source: write "kubeconfig FILE" in the kubernetes block of a Corefile; '
            "a command takes the Corefile with --conf"
        )
    if name.text not in SOURCES:
        remedy = did_you_mean(name.text, SOURCES) or f"; known are {', '.join(SOURCES)}"
        raise name.error(f'unknown source "{name.text}"{remedy}')
    found: type[NamedSource]
    found = getattr(import_module(f"hsdns.sources.{name.text}"), SOURCES[name.text])
    return found.setup(name, args, base_dir)


# Settings of a source, as NAME=VALUE: checks their names, and converts their values.


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
