"""Regular expressions in a Corefile: RE2, with Go's syntax and matching in linear time.

Path: setup of the plugins that take a pattern; expression/ for `matches`.
Source: RE2, which Go's regexp package follows (github.com/google/re2/wiki/Syntax).
Rule 1: no pattern of a Corefile is compiled with Python's `re`, which may take exponential time.
Rule 2: re2 is imported with the first pattern: it takes 2.5 MB, and the usual Corefiles have no pattern.
"""

from __future__ import annotations

from typing import Final, Protocol, cast

from hsdns.corefile.tree import Token

MAX_PATTERN_LEN: Final = 10_000  # characters; CoreDNS has the same limit in every plugin


class Match(Protocol):
    """One match of a pattern."""

    def group(self, group: int, /) -> str | None:
        """Return a group's text, None if it did not match; group 0 is the whole match."""

    def groups(self) -> tuple[str | None, ...]:
        """Return the text of groups 1 and up."""


class Pattern(Protocol):
    """A compiled pattern."""

    pattern: str
    groups: int
    groupindex: dict[str, int]

    def search(self, text: str, /) -> Match | None:
        """Return the leftmost match."""


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; raise ValueError with the reason."""
    if len(text) > MAX_PATTERN_LEN:
        raise ValueError(
            f"the pattern has {len(text)} characters, at most {MAX_PATTERN_LEN} are allowed"
        )
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - google-re2 has no types; Rule 2

    options = re2.Options()
    options.log_errors = False  # RE2 would write to stderr
    try:
        return cast(Pattern, re2.compile(text, options))
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f'"{text}" is not a regular expression: {words}') from None


def read_pattern(token: Token) -> Pattern:
    """Compile a word as a pattern; raise CorefileError."""
    return token.parse(compile_pattern)
