"""Plugins set up from a few lines of a Corefile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hsdns.corefile.tree import CorefileError, Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire.name import Name
from tests.support.plugins.corefiles import parsed

P = TypeVar("P", bound=Plugin)


def directives(text: str) -> list[Directive]:
    """Parse the inside of a server block; its first line is line 2 of `Corefile`."""
    return list(parsed(f". {{\n{text}\n}}\n").blocks[0].directives)


def make_block(
    zones: Sequence[str] = (".",), warnings: list[str] | None = None, *, validating: bool = False
) -> Block:
    """Make the Block of a server block; `warnings` collects the warnings of a setup."""
    return Block(
        zones=tuple(Name.from_text(zone) for zone in zones),
        servers=("dns://:53",) * len(zones),
        plugins=frozenset(),
        corefile_dir=".",
        validating=validating,
        warn=(warnings if warnings is not None else []).append,
    )


def set_up(
    plugin: type[P],
    text: str,
    zones: Sequence[str] = (".",),
    warnings: list[str] | None = None,
    *,
    validating: bool = False,
) -> P:
    """Call a plugin's setup with the lines of a Corefile; raise CorefileError."""
    return plugin.setup(directives(text), make_block(zones, warnings, validating=validating))


def setup_error(plugin: type[Plugin], text: str) -> str:
    """The error of a setup with these lines; AssertionError if it accepts them."""
    try:
        set_up(plugin, text)
    except CorefileError as error:
        return str(error)
    raise AssertionError(f"setup took {text!r}")
