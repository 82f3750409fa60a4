"""`hsdns interface`: creates the network interface that a node-local server listens on.

Path: argv of the init container in deploy/overlays/node-local -> here -> server/interfaces.py.
Rule: an existing interface is kept, so that the next pod uses that of the previous one.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from hsdns.cli.flags import Flag, FlagError, parse_flags, usage
from hsdns.cli.output import complain, say, say_text

MAX_NAME: Final = 15  # octets (IFNAMSIZ)
FLAGS: Final = {
    "name": Flag(str, 'name of the interface (default "hsdns")', "NAME"),
    "address": Flag(list, "its IPv4 and IPv6 addresses", "ADDRESS..."),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns interface`; return the exit status."""
    try:
        flags = parse_flags(words, FLAGS, command="hsdns interface")
        if flags.get("h"):
            say_text(f"Usage: hsdns interface [-name NAME] -address ADDRESS...\n\nFlags:\n{usage(FLAGS)}")  # fmt: skip
            return 0
        name = str(flags.get("name", "hsdns"))
        if not 0 < len(name.encode()) <= MAX_NAME:
            raise FlagError(f'-name needs 1 to {MAX_NAME} octets, found "{name}"')
        given = flags.get("address")
        if not isinstance(given, list):
            raise FlagError("-address is missing: the addresses of the interface")
        try:
            addresses = [ip_address(word) for word in given]
        except ValueError as error:
            raise FlagError(f"-address: {error}") from None
    except FlagError as error:
        complain(error)
        return 1

    from hsdns.server.interfaces import DummyInterface

    try:
        with DummyInterface(name) as interface:
            for address in addresses:
                added = interface.add(address)
                say(f"{name}: {address}{'' if added else ' is left out, because IPv6 is off here'}")
    except OSError as error:
        complain(
            f"cannot create the interface {name}: {error.strerror or error}; this needs Linux and CAP_NET_ADMIN"
        )
        return 1
    return 0
