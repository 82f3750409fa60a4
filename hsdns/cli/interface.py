"""`hsdns interface`: creates the network interface that a node-local server listens on.

Path: argv of the init container in deploy/overlays/node-local -> here -> server/host.py.
Rule: an existing interface is kept, so that the next pod uses that of the previous one.
"""

from __future__ import annotations

from errno import EOPNOTSUPP
from ipaddress import ip_address
from typing import Final

from hsdns.cli.command import Command, FlagError, flag, say
from hsdns.errors import OperatorError

MAX_NAME: Final = 15  # octets (IFNAMSIZ)


class Interface(Command):
    """Creates the interface, and gives it the addresses."""

    name = "interface"
    forms = "[--name NAME] --address ADDRESS..."

    interface: str = flag("hsdns", 'name of the interface (default "hsdns")', "NAME", name="name")
    address: list[str] = flag([], "its IPv4 and IPv6 addresses", "ADDRESS...")

    def run(self) -> int:
        """Create it; an address of a disabled family is skipped."""
        name = self.interface
        if not 0 < len(name.encode()) <= MAX_NAME:
            raise FlagError(f'--name needs 1 to {MAX_NAME} octets, found "{name}"')
        if not self.address:
            raise FlagError("--address is missing: the addresses of the interface")
        try:
            addresses = [ip_address(word) for word in self.address]
        except ValueError as error:
            raise FlagError(f"--address: {error}") from None

        from hsdns.server.host import DummyInterface

        try:
            with DummyInterface(name) as interface:
                for address in addresses:
                    off = "" if interface.add(address) else " is skipped: IPv6 is disabled"
                    say(f"{name}: {address}{off}")
        except OSError as error:
            needs = (
                "the kernel module dummy is missing; on the node: modprobe dummy"
                if error.errno == EOPNOTSUPP
                else f"{error.strerror or error}; this needs Linux and CAP_NET_ADMIN"
            )
            raise OperatorError(f"cannot create the interface {name}: {needs}") from None
        return 0
