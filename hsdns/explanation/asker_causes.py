"""Finds the setting of a client that makes a lookup fail: with it changed, the same lookup succeeds.

Path: asker.py, for a lookup that failed -> here -> lookups.py looks up again.
Rule: a cause is reported only after a lookup that differs only in this setting has succeeded, or would reach another
      server that the first lookup did not reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hsdns.explanation.lookups import UNSEEN, Lookups, Setting
from hsdns.resolver import MODELS, USUAL
from hsdns.resolver.musl import LINE_LEN
from hsdns.resolver.pod import PodDns, pod_resolv_conf, search_list
from hsdns.resolver.report import LookupReport

HOST_NETWORK: Final = "ClusterFirstWithHostNet"
NEWER: Final = {"musl-1.2.3": "musl"}


class Asker(NamedTuple):
    """The client: resolvers with a resolv.conf, of a Pod or not.

    `path` is NAMESPACE/NAME of the Pod, `server` the address of the cluster's DNS as the kubelet writes it, `domain`
    the cluster domain, `node` the resolv.conf of the node, `namespaces` the cluster's namespaces.  `added` are lines
    that override the resolv.conf.  `remarks` name the origins of the settings, and facts that were not seen.
    """

    resolvers: tuple[str, ...]
    text: str
    domain: str = ""
    namespaces: tuple[str, ...] = ()
    path: str = ""
    pod: PodDns | None = None
    address: str = ""
    server: str = ""
    node: str = ""
    added: str = ""
    blocked: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def settings(self) -> list[Setting]:
        """The settings of the lookups."""
        servers = frozenset((self.server,)) if self.server else frozenset[str]()
        return [Setting(each, self.text, servers, self.blocked) for each in self.resolvers]


class AskerCause(NamedTuple):
    """A cause as a sentence, its fix, and `found`: the setting, or name, with which the lookup succeeds."""

    cause: str
    needed: str
    setting: Setting
    name: str = ""
    found: str = ""


async def asker_cause(
    asker: Asker,
    lookups: Lookups,
    setting: Setting,
    failed: LookupReport,
) -> AskerCause | None:
    """The first cause that a lookup proves, or None if the client is not the cause."""
    likely: AskerCause | None = None
    for each in _causes(asker, setting, failed, lookups.name):
        if "udp" in dict(setting.blocked):  # whatever other causes there are
            return each
        found = await lookups.look_up(each.setting, each.name)
        if not found.error:
            return each._replace(found=_found(found))
        if found.error == UNSEEN and failed.error != UNSEEN:  # it tries another server
            likely = likely or each
    if likely is not None:
        return likely
    if failed.error == UNSEEN and asker.pod is not None:
        return _other_server(asker, setting, failed)
    return None


def _causes(
    asker: Asker, setting: Setting, failed: LookupReport, name: str
) -> Iterator[AskerCause]:
    resolver, dots = setting.resolver, name.removesuffix(".").count(".")
    if setting.blocked:
        sentence = setting.blocked[0][1]
        yield AskerCause(
            f"{sentence}{_needs_tcp(setting, failed)}",
            "the policy allows port 53 over UDP and TCP to the cluster's DNS",
            setting._replace(blocked=()),
        )
    yield from _of_policy(asker, setting)
    for remark in failed.remarks:
        if "ignores the line search" in remark:
            yield AskerCause(
                f"{remark}, so it tries no search domain",
                f"the line has {LINE_LEN} octets at most",
                setting._replace(text=_shortened(setting.text)),
            )
    if asker.pod is not None and "search " not in asker.added:
        whole = search_list(asker.pod, asker.domain, asker.node)
        left_out = [each for each in whole if each not in failed.search]
        if left_out and len(failed.search) < len(whole):
            yield AskerCause(
                f"the kubelet writes {len(failed.search)} of {len(whole)} search domains into the resolv.conf, "
                f"and leaves out {left_out[0]}" + (" and others" if len(left_out) > 1 else ""),
                "there are fewer search domains, or shorter ones",
                _with_search(setting, whole),
            )
    if failed.ndots <= dots and not name.endswith("."):
        yield AskerCause(
            f"{name} has {_counted(dots, 'dot')} and ndots is {failed.ndots}, so {resolver} tries no search domain",
            f"ndots is {dots + 1} or more, or the whole name is asked",
            setting._replace(text=f"{setting.text}options ndots:{dots + 1}\n"),
        )
    if not name.endswith("."):
        yield AskerCause(
            f"the search list catches {name}: {failed.why}",
            f"the name ends with a dot, {name}., and is asked as it is",
            setting,
            f"{name}.",
        )
    for other in (NEWER.get(resolver, ""), *(each for each in USUAL if each != resolver)):
        if other:
            yield AskerCause(
                failed.why,
                f"it is {other}" if other == NEWER.get(resolver) else f"{other} goes on",
                setting._replace(resolver=other),
            )
    for suffix in _suffixes(asker, failed):
        has = " ".join(failed.search) or "none"
        yield AskerCause(
            f"the search list has no {suffix}, where {_short(name)} exists; it has {_shown(failed.search)}"
            if has != "none"
            else f"there is no search list, and {_short(name)} exists in {suffix}",
            f"{_short(name)}.{suffix} is asked",
            _with_search(setting, (*failed.search, suffix), dots),
        )


def _of_policy(asker: Asker, setting: Setting) -> Iterator[AskerCause]:
    pod = asker.pod
    if pod is None:
        return
    is_cluster = asker.server in setting.text
    plain = PodDns(pod.namespace, HOST_NETWORK, options=pod.options)
    usual = pod_resolv_conf(plain, asker.server, asker.domain, asker.node) + asker.added
    fixed = setting._replace(text=usual)
    named = f"its dnsPolicy is {pod.policy}"
    if pod.policy == "ClusterFirst" and pod.on_host_network:
        yield AskerCause(
            f"{named}, which on the host network means Default: it asks {setting.nameservers}, not the cluster's "
            f"DNS {asker.server}",
            f"dnsPolicy is {HOST_NETWORK}",
            fixed,
        )
    elif pod.policy in ("Default", "None") and not is_cluster:
        yield AskerCause(
            f"{named}, so it asks {setting.nameservers}, not the cluster's DNS {asker.server}",
            "dnsPolicy is ClusterFirst",
            fixed,
        )
    elif pod.policy in ("Default", "None"):
        yield AskerCause(
            f"{named}, so its search list is {_shown(MODELS[setting.resolver].read(setting.text).search)}"
            if MODELS[setting.resolver].read(setting.text).search
            else f"{named} and its dnsConfig has no searches, so it has no search list",
            "dnsPolicy is ClusterFirst, or dnsConfig has the searches",
            fixed,
        )


def _other_server(asker: Asker, setting: Setting, failed: LookupReport) -> AskerCause | None:
    """The cause for a client that uses another server, whose answers are not seen."""
    last = failed.queries[-1] if failed.queries else None
    if last is None or setting.is_seen(last.nameserver):
        return None
    assert asker.pod is not None, "as the caller has looked"
    return AskerCause(
        f"its dnsPolicy is {asker.pod.policy}, so it asks {setting.nameservers}, not the cluster's "
        f"DNS {asker.server}",
        "that server is asked",
        setting,
    )


def _suffixes(asker: Asker, failed: LookupReport) -> Iterator[str]:
    """The cluster's search domains that are not in the list, first the domain of the Pod's namespace."""
    domain = asker.domain
    if not domain:
        return
    own = (asker.pod.namespace,) if asker.pod is not None else ()
    for namespace in dict.fromkeys((*own, *asker.namespaces)):
        if f"{namespace}.svc.{domain}" not in failed.search:
            yield f"{namespace}.svc.{domain}"
    for suffix in (f"svc.{domain}", domain):
        if suffix not in failed.search:
            yield suffix


def _needs_tcp(setting: Setting, failed: LookupReport) -> str:
    if "udp" in dict(setting.blocked):
        return ""
    cut = [each for each in failed.queries if each.answer is not None and each.answer.truncated]
    return f", and the answer for {cut[0].name} is too long for UDP" if cut else ""


def _with_search(setting: Setting, search: Sequence[str], dots: int | None = None) -> Setting:
    more = f"search {' '.join(search)}\n"
    if dots is not None and MODELS[setting.resolver].read(setting.text).ndots <= dots:
        more += f"options ndots:{dots + 1}\n"
    return setting._replace(text=setting.text + more)


def _shortened(text: str) -> str:
    """Split the search list of a resolv.conf over several lines that are short enough to be read."""
    lines = []
    for line in text.splitlines():
        words = line.split()
        while words[:1] == ["search"] and len(" ".join(words)) > LINE_LEN:
            words.pop()
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def _found(report: LookupReport) -> str:
    named = [each.name for each in report.queries if each.answer is not None and each.answer.addresses]  # fmt: skip
    return named[-1]


def _short(name: str) -> str:
    return name.removesuffix(".")


def _shown(search: Sequence[str]) -> str:
    return " ".join(search[:3]) + (" …" if len(search) > 3 else "") or "none"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
