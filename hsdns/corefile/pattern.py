"""Regular expressions that a Corefile holds: Go's syntax, and time that grows with the text alone.

Path: setup of the plugins that take one; expression/ for `matches`.
Source: RE2, which Go's regexp package follows (github.com/google/re2/wiki/Syntax).
Rule 1: no expression of a Corefile reaches the `re` module of Python, whose time may grow without bound.
Rule 2: re2 is imported for the first expression: it takes 2.5 MB, and the files of the distributions have none.
"""

from __future__ import annotations

from typing import Final, Protocol, cast

from hsdns.corefile.tree import CorefileError, Token

MAX_PATTERN_LEN: Final = 10_000  # characters; CoreDNS has the same limit in every plugin


class Match(Protocol):
    """Where a pattern was found."""

    def group(self, group: int, /) -> str | None:
        """What a group took part in, None where it took no part; 0 is the whole."""

    def groups(self) -> tuple[str | None, ...]:
        """All groups but the whole."""


class Pattern(Protocol):
    """A compiled expression."""

    pattern: str
    groups: int
    groupindex: dict[str, int]

    def search(self, text: str, /) -> Match | None:
        """Find the first place that fits."""


def compile_pattern(text: str) -> Pattern:
    """Compile an expression; raise ValueError with the reason."""
    if len(text) > MAX_PATTERN_LEN:
        raise ValueError(
            f"the pattern has {len(text)} characters, at most {MAX_PATTERN_LEN} are allowed"
        )
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - google-re2 has no types; Rule 2

    options = re2.Options()
    options.log_errors = False  # it would write to stderr by itself
    try:
        return cast(Pattern, re2.compile(text, options))
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f'"{text}" is not a regular expression: {words}') from None


def read_pattern(token: Token) -> Pattern:
    """Read a word as an expression; raise CorefileError."""
    try:
        return compile_pattern(token.text)
    except ValueError as error:
        raise CorefileError(token.position, str(error)) from None
