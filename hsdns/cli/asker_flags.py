"""The flags of a command for the client of a lookup: a resolver, its resolv.conf, or a Pod.

Path: cli/resolve.py, cli/explain.py -> here -> explanation/question.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from hsdns.cli.command import FlagError, flag
from hsdns.cli.source import ClusterCommand
from hsdns.resolver import MODELS, USUAL

if TYPE_CHECKING:
    from hsdns.explanation.question import LookupQuestion

RESOLV_CONF: Final = "/etc/resolv.conf"
FLAGS: Final = ("resolver", "search", "ndots", "resolv-conf", "from", "cluster-dns")


class AskerCommand(ClusterCommand):
    """A command with flags for the client of a lookup."""

    resolver: Annotated[
        str, flag(f"{', '.join(MODELS)} (default: {', '.join(USUAL)}, side by side)", "NAME")
    ] = ""
    search: Annotated[
        str, flag("search domains in place of those of resolv.conf", "DOMAIN,...")
    ] = ""
    ndots: Annotated[
        int | None, flag("ndots in place of that of resolv.conf", "N", what="number", high=15)
    ] = None
    resolv_conf: Annotated[
        str,
        flag(f"resolv.conf to use (default {RESOLV_CONF}); with -from, that of the node", "FILE"),
    ] = ""
    from_: Annotated[
        str, flag("pod whose resolv.conf is used, as the kubelet writes it", "NS/POD")
    ] = ""
    cluster_dns: Annotated[
        str,
        flag("with -from: nameserver the kubelet writes (default: of Service kube-dns)", "ADDRESS"),
    ] = ""

    def asking(self) -> LookupQuestion:
        """The lookup that the words and flags describe; raise FlagError."""
        from hsdns.explanation.question import LookupQuestion

        if "cluster-dns" in self.given and "from" not in self.given:
            raise FlagError("-cluster-dns is for a pod; add -from NS/POD, or leave it out")
        name, types = self.name_and_types()
        return LookupQuestion(
            name,
            types,
            self.resolvers(),
            self.from_,
            self.resolv_conf_text(),
            self.search,
            self.ndots_text,
            self.cluster_dns,
        )

    @property
    def ndots_text(self) -> str:
        """The word of -ndots, "" without it."""
        return "" if self.ndots is None else str(self.ndots)

    def resolvers(self) -> tuple[str, ...]:
        """The resolvers to show; raise FlagError."""
        from hsdns.explanation.question import read_resolvers

        try:
            return read_resolvers(self.resolver)
        except ValueError as error:
            raise FlagError(str(error)) from None

    def name_and_types(self) -> tuple[str, tuple[int, ...]]:
        """The name and the types that a program looks up; raise FlagError."""
        from hsdns.explanation.question import read_name

        self.name_and_type()
        try:
            return read_name(*self.words)
        except ValueError as error:
            raise FlagError(str(error)) from None

    def resolv_conf_text(self) -> str:
        """The text of the resolv.conf to use, "" for a Pod without that of its node; raise FlagError."""
        if "resolv-conf" not in self.given and "from" in self.given:
            return ""
        path = self.resolv_conf or RESOLV_CONF
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError as error:
            raise FlagError(
                f"{path} cannot be read: {error.strerror}; give a resolv.conf with -resolv-conf"
            ) from None
