"""Flags that give shares to kinds: `KIND=SHARE`, separated by commas; shares are relative to their sum.

Path: cli/load_flags.py and cli/load_pods.py read -mix, -churn-kinds, -resolvers and -forms with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from hsdns.corefile.tree import did_you_mean
from hsdns.load.errors import LoadError

MOST_DIGITS: Final = 9


def read_shares(
    text: str,
    known: Iterable[str],
    flag: str,
    what: str,
    *,
    example: int = 20,
    alone: bool = False,
    nothing: str = "",
    unknown: Callable[[str], str] = lambda kind: "",
) -> dict[str, int]:
    """Read the shares in a flag, in its order; raise LoadError.

    `what` names a kind in messages, `example` is a share to propose, `nothing` describes the effect of shares that are
    all 0.  `alone`: a kind without a share has a share of 1.  `unknown` may return why a kind is not one of these.
    """
    known = list(known)
    found: dict[str, int] = {}
    for part in text.split(","):
        kind, equals, share = part.strip().partition("=")
        if kind not in known:
            reason = unknown(kind) or did_you_mean(kind, known) or f"; there are {', '.join(known)}"
            raise LoadError(f'-{flag}: "{kind}" is no {what}{reason}')
        if not equals and alone:
            share = "1"
        if not (share.isascii() and share.isdigit() and len(share) <= MOST_DIGITS):
            raise LoadError(
                f'-{flag}: {kind} needs a share, such as {kind}={example}; found "{share}"'
            )
        if kind in found:
            raise LoadError(f"-{flag}: {kind} is given twice; remove one of them")
        found[kind] = int(share)
    if not any(found.values()):
        raise LoadError(f'-{flag}: the shares of "{text}" are all 0{nothing}')
    return found
