"""The flags of a command that say who asks: a resolver, its resolv.conf, or a Pod.

Path: cli/resolve.py, cli/explain.py -> here -> resolver/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns.cli.flags import Flag, FlagError
from hsdns.corefile.tree import did_you_mean
from hsdns.resolver import MODELS, USUAL
from hsdns.wire.iana import RRType, type_from_text, type_to_text
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.assemble import Configuration
    from hsdns.explanation.asker_causes import Asker
    from hsdns.explanation.explain import Explainer
    from hsdns.explanation.report import Explanation

RESOLV_CONF: Final = "/etc/resolv.conf"
TYPES: Final = (RRType.A, RRType.AAAA)
FLAGS: Final = {
    "resolver": Flag(str, f"{', '.join(MODELS)} (default: {', '.join(USUAL)}, side by side)", "NAME"),
    "search": Flag(str, "search domains in place of those of resolv.conf", "DOMAIN,..."),
    "ndots": Flag(int, "ndots in place of that of resolv.conf", "N", what="number", high=15),
    "resolv-conf": Flag(str, f"resolv.conf to use (default {RESOLV_CONF}); with -from, that of the node", "FILE"),
    "from": Flag(str, "pod of the source manifests, whose resolv.conf is used as the kubelet writes it", "NS/POD"),
}  # fmt: skip


class Asks(NamedTuple):
    """What the flags say: a name as a program looks it up, with these resolvers."""

    name: str
    types: tuple[int, ...]
    resolvers: tuple[str, ...]
    flags: Mapping[str, object]

    async def explain(
        self,
        explainer: Explainer,
        configuration: Configuration,
        now: float,
        problems: Sequence[str],
    ) -> Explanation:
        """Explain the lookup, once the cluster has been read; raise FlagError."""
        from hsdns.explanation.asker import Question, explain_asker

        question = Question(self.name, self.types)
        asker = self._asker(configuration)
        try:
            return await explain_asker(explainer, asker, question, now, problems)
        except ValueError as error:
            raise FlagError(f"a name of the search list cannot be looked up: {error}") from None

    def _asker(self, configuration: Configuration) -> Asker:
        from hsdns.cli.resolve_pod import cluster_dns, find_pod
        from hsdns.cluster.reverse import is_reverse
        from hsdns.explanation.asker_causes import Asker
        from hsdns.plugins.kubernetes import Kubernetes
        from hsdns.resolver.pod import pod_resolv_conf

        flags = self.flags
        node, added = resolv_conf(flags), overridden("", flags)
        blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
        names = sorted({name for each in blocks for name in each.store.namespaces})
        namespaces = tuple(name.decode("ascii", "replace") for name in names)
        if "from" not in flags:
            zones = [zone for each in blocks for zone in each.zones if not is_reverse(zone)]
            domain = zones[0].to_text().removesuffix(".") if zones else ""
            return Asker(self.resolvers, overridden(node, flags), domain, namespaces, added=added)
        path = str(flags["from"])
        pod, server = find_pod(configuration, path), cluster_dns(configuration)
        text = pod_resolv_conf(pod.dns, server, pod.domain, node)
        return Asker(
            self.resolvers,
            overridden(text, flags),
            pod.domain,
            namespaces,
            path,
            pod.dns,
            pod.address,
            server,
            node,
            added,
            pod.denied,
        )


def asks(plain: list[str], flags: Mapping[str, object]) -> Asks:
    """The lookup that the words and flags of `explain` describe; raise FlagError."""
    given = next(flag for flag in FLAGS if flag in flags)
    if "source" not in flags and "conf" not in flags:
        raise FlagError(f"-{given} explains a lookup from files; add -source or -conf")
    for other in ("server", "history"):
        if other in flags:
            raise FlagError(
                f"-{other} is for one question, and -{given} for a whole lookup; leave one of them out"
            )
    name, types = name_and_types(plain, "explain")
    return Asks(name, types, resolvers(flags), flags)


def are_in(flags: Mapping[str, object]) -> bool:
    """Whether flags say who asks."""
    return not FLAGS.keys().isdisjoint(flags)


def resolvers(flags: Mapping[str, object]) -> tuple[str, ...]:
    """The resolvers to show; raise FlagError."""
    chosen = str(flags.get("resolver", ""))
    if chosen and chosen not in MODELS:
        hint = did_you_mean(chosen, MODELS) or f"; there are {', '.join(MODELS)}"
        raise FlagError(f'there is no model of a resolver "{chosen}"{hint}')
    return (chosen,) if chosen else USUAL


def name_and_types(plain: list[str], command: str) -> tuple[str, tuple[int, ...]]:
    """The name and the types that a program looks up; raise FlagError."""
    if len(plain) not in (1, 2):
        raise FlagError(
            f"hsdns {command} needs a name, and may have a type: hsdns {command} NAME [TYPE]"
        )
    try:
        if not Name.from_text(plain[0]).labels:
            raise ValueError("it is the root")
        plain[0].encode("ascii")
    except ValueError as error:
        raise FlagError(f'"{plain[0]}" is not a name that can be looked up: {error}') from None
    if len(plain) == 1:
        return plain[0], TYPES
    try:
        rrtype = type_from_text(plain[1].upper())
    except ValueError as error:
        raise FlagError(str(error)) from None
    if rrtype not in TYPES:
        raise FlagError(
            f"programs look up A and AAAA records by getaddrinfo, not {type_to_text(rrtype)}; "
            f"hsdns lookup {plain[0]} {type_to_text(rrtype)} asks a server for it"
        )
    return plain[0], (rrtype,)


def resolv_conf(flags: Mapping[str, object]) -> str:
    """The text of the file that is meant, "" for a Pod without that of its node; raise FlagError."""
    path = flags.get("resolv-conf")
    if path is None and "from" in flags:
        return ""
    path = str(path or RESOLV_CONF)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise FlagError(
            f"{path} cannot be read: {error.strerror}; give a resolv.conf with -resolv-conf"
        ) from None


def overridden(text: str, flags: Mapping[str, object]) -> str:
    """Add lines for -search and -ndots; for all resolvers, the last line counts."""
    lines = [text.rstrip("\n")]
    if "search" in flags:
        lines.append("search " + " ".join(str(flags["search"]).split(",")))
    if "ndots" in flags:
        lines.append(f"options ndots:{flags['ndots']}")
    return "\n".join(lines).lstrip("\n") + "\n" if any(lines) else ""
