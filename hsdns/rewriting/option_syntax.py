"""Parser for the arguments after `edns0`.

Path: syntax.py at setup -> option.py.
Source: CoreDNS 1.14.7 plugin/rewrite edns0.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hsdns.corefile.tree import Token, did_you_mean
from hsdns.rewriting.option import (
    VARIABLES,
    Action,
    Data,
    RewriteOption,
    constant,
    metadata,
    subnet,
)
from hsdns.wire.iana import OptCode

# The arguments after `KIND ACTION`: in general, and for `unset`.
_EDNS0_ARGUMENTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "local": (("CODE", "DATA"), ("CODE",)),
    "nsid": ((), ()),
    "subnet": (("IPV4-BITS", "IPV6-BITS"), ()),
}


def read_option(words: Sequence[Token], stops: bool) -> RewriteOption:
    """Parse `KIND ACTION ...` (at least two words); raise CorefileError."""
    kind, verb, arguments = words[0], words[1], words[2:]
    name = kind.one_of(_EDNS0_ARGUMENTS, ignore_case=True)
    action = Action(verb.one_of([each.value for each in Action], ignore_case=True))
    reverts = action is not Action.UNSET and bool(arguments) and arguments[-1].text == "revert"
    if reverts:
        arguments = arguments[:-1]
    wanted = _EDNS0_ARGUMENTS[name][action is Action.UNSET]
    if len(arguments) != len(wanted):
        raise verb.error(
            f'"{kind.text} {verb.text}" takes {" ".join(wanted) or "no argument"}, found {len(arguments)} arguments'
        )
    code, data, is_single = int(OptCode.NSID), constant(b""), False
    if name == "local":
        code = _code(arguments[0])
        if len(arguments) > 1:
            data, is_single = _data(arguments[1])
    elif name == "subnet":
        code, is_single = int(OptCode.SUBNET), True
        if arguments:
            data = subnet(_bits(arguments[0], 32), _bits(arguments[1], 128))
    return RewriteOption(
        action,
        code,
        data,
        is_single=is_single,
        echoed=name == "local",
        reverts=reverts,
        stops=stops,
    )


def _code(token: Token) -> int:
    value = _number(token.text)
    if value is None or value > 0xFFFF:
        raise token.error(
            f'"{token.text}" is not an option code; write 0 to 65535 or 0x0 to 0xffff'
        )
    return value


def _bits(token: Token, most: int) -> int:
    value = _number(token.text)
    if value is None or value > most:
        raise token.error(f'"{token.text}" is not a prefix length; allowed is 0 to {most}')
    return value


def _number(text: str) -> int | None:
    """Parse a number in Go's syntax (decimal, 0x, 0o, 0b, or octal after a zero); return None if it is not one."""
    if not re.fullmatch("[0-9A-Za-z_]{1,40}", text):
        return None
    try:
        return int(text, 8) if re.fullmatch("0[0-7_]+", text) else int(text, 0)
    except ValueError:
        return None


def _data(token: Token) -> tuple[Data, bool]:
    """Return the data of a local option, and whether it is a variable, which is only added if the option is absent."""
    text = token.text
    if text.startswith("{") and text.endswith("}"):
        word = text[1:-1]
        if word in VARIABLES:
            return VARIABLES[word], True
        namespace, _, name = word.partition("/")
        if not namespace or not name:
            raise token.error(
                f'"{text}" is not a variable; variables are {", ".join(VARIABLES)} and metadata labels such as '
                f"plugin/name{did_you_mean(word, VARIABLES)}"
            )
        return metadata(word), True
    if text.startswith("0x"):
        if not re.fullmatch("([0-9A-Fa-f]{2})*", text[2:]):
            raise token.error(f'"{text}" is not hexadecimal; write two digits per octet')
        return constant(bytes.fromhex(text[2:])), False
    return constant(text.encode("utf-8", "surrogateescape")), False
