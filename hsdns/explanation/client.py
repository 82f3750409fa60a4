"""The client of a lookup: its resolvers, its Pod, its whole lookups, and the setting of it that makes one fail.

Path: server/explaining.py, resolver/cli.py -> client_of(), find_pod() (the source's read_pod()); lookup.py -> Lookups,
client_cause() -> resolver/ (the models), explain.Explainer.ask (the answers) -> resolver.report.LookupReport.
Rule: a cause is reported only after a lookup that differs only in this setting has succeeded, or would reach another
      server that the first lookup did not reach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address
from random import Random
from typing import Any, Final, NamedTuple

from hsdns.ask.names import Word, full_name
from hsdns.assemble import Configuration
from hsdns.cluster.address import dashed_text, is_reverse
from hsdns.cluster.controllers.kinds import PodSpec
from hsdns.cluster.controllers.network_policy import Denial
from hsdns.cluster.pack import pack_label
from hsdns.cluster.source import PodReading, PodUnreadable
from hsdns.corefile.tree import did_you_mean
from hsdns.explanation.question import LookupQuestion, QuestionError, overridden
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.resolver import MODELS, model_of, usual
from hsdns.resolver.forwarders import class_of
from hsdns.resolver.forwarders.coredns import NodeLocalDns
from hsdns.resolver.forwarders.forwarder import NOTHING, Between, Forwarder
from hsdns.resolver.model import (
    UNSEEN,
    Answer,
    Fate,
    Packet,
    Result,
    Unfinished,
    VirtualTransport,
    answer_of,
    candidates,
    look_up,
)
from hsdns.resolver.musl import LINE_LEN
from hsdns.resolver.report import LookupReport, report_of
from hsdns.resolver.resolv_conf import POLICIES, PodDns, pod_resolv_conf, search_list, with_ndots
from hsdns.sources.api_server import ApiServer
from hsdns.sources.client_pod import USUAL_DNS
from hsdns.sources.manifests import Manifests
from hsdns.upstream.target import nameservers
from hsdns.wire import counted, is_address
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.rdata import address_to_text

# Whole lookups of resolvers, with answers of the observed chain.
#
# Rule 1: the clock is virtual, and no server is queried; answers of other servers are not seen.
# Rule 2: a name that this server would forward counts as NXDOMAIN, so that the lookup continues; if it then fails, its
#         result is UNSEEN.  A query to another nameserver is UNSEEN at once, and so is an alias of a name outside the
#         cluster, an error of a plugin, and what could not be read.


ASSUMED: Final = "assumed missing"
NOT_SEEN: Final = "not seen"
SVC: Final = "svc"  # the last label of names that a search domain makes those of Services


class Response(NamedTuple):
    """The fate of a packet, or why it is not known; `ends`: the result is not known either, whatever is asked next."""

    fate: Fate
    why: str = ""
    ends: bool = False


Respond = Callable[[Packet, str], Awaitable[Response]]


def response_to(packet: Packet, reply: bytes | None, why: str, seconds: float = 0.0) -> Response:
    """The response after some seconds, or why it is not known; see Explainer.ask()."""
    if why:
        return Response(None, why, True) if reply is None else Response(MISSING, why)
    return Response(None if reply is None else (seconds, answer_of(reply, packet)))


MISSING: Final = (0.0, Answer(Rcode.NXDOMAIN))  # of a name whose answer is not known


def may_be_elsewhere(name: str) -> bool:
    """Whether another server may have a name: no top-level domain has records of a program, and svc is none."""
    labels = name.removesuffix(".").split(".")
    return len(labels) > 1 and labels[-1] != SVC


class Setting(NamedTuple):
    """The settings of a lookup, apart from the name: the model, its resolv.conf, and the reachable servers.

    `servers` are the addresses of this server; other nameservers are not seen.  Without them all nameservers are this
    server.  `blocked` has the transports that a NetworkPolicy denies.  `through`: what is between.
    """

    resolver: str
    text: str
    servers: frozenset[str] = frozenset()
    blocked: tuple[tuple[str, Denial], ...] = ()
    through: Between = NOTHING
    has_ipv6: bool = True

    @property
    def nameservers(self) -> str:
        """The nameservers of the resolv.conf, in words."""
        return " and ".join(nameservers(self.text)) or "the nameservers of its node"

    @property
    def reached(self) -> list[str]:
        """The nameservers that are this server, unless a NetworkPolicy is between."""
        is_cut = "udp" in dict(self.blocked)
        return [] if is_cut else list(filter(self.is_seen, nameservers(self.text)))

    def is_seen(self, server: str) -> bool:
        """Whether a nameserver is this server."""
        return not self.servers or server in self.servers


class Lookups:
    """Lookups of one name; `respond` says how this server responds to a packet to one of its addresses."""

    def __init__(self, respond: Respond, name: str, types: Sequence[int]) -> None:
        self.respond, self.name, self.types = respond, name, types

    async def look_up(self, setting: Setting, name: str = "") -> LookupReport:
        """Run a lookup, of another name if one is given; raise ValueError for a name that cannot be in a message."""
        model = model_of(setting.resolver, setting.text, Random(0), setting.through)
        own = model.program if isinstance(model, Forwarder) else model
        own.has_ipv6 = setting.has_ipv6
        servers, blocked = model.conf.nameservers, frozenset(dict(setting.blocked))
        if isinstance(model, Forwarder) and not model.captures:  # it is on the node
            model.blocked, blocked = blocked, frozenset()
        unseen: dict[int, str] = {}
        reasons: dict[int, str] = {}

        async def fate_of(packet: Packet) -> Fate:
            if not setting.is_seen(servers[packet.server]):
                is_known, splits = any(map(setting.is_seen, servers)), setting.through.domain
                whose = "the nameservers of its node" if splits else setting.nameservers
                why = f"{whose} would answer for {packet.name}"
                found = Response(MISSING if splits else None, why, not is_known)
            elif packet.transport in blocked:
                found = Response(None)
            else:
                found = await self.respond(packet, servers[packet.server])
            if found.why:
                unseen[id(packet)] = NOT_SEEN if found.fate is None else ASSUMED
                reasons[id(packet)] = found.why
            if found.ends:
                raise Unfinished(found.why, UNSEEN)
            return found.fate

        transport = VirtualTransport(fate_of)
        trace = await look_up(model, name or self.name, self.types, transport)
        missed = [
            each for each in trace.packets if may_be_elsewhere(each.name) and id(each) in unseen
        ]
        if missed and trace.result.error:
            why = [reasons[id(each)] for each in missed]
            unread = [each for each in why if each.startswith("namespace ")]
            trace = trace._replace(
                result=Result((), UNSEEN, "; ".join(dict.fromkeys([*unread[:1], why[-1]])))
            )
        return report_of(model, trace, unseen)


UNKNOWN_NAME: Final = (
    "{}, so whether {} is one of its names is not known; "
    "end a whole name with a dot, or name the namespace with -n"
)
HOST_NETWORK: Final = "ClusterFirstWithHostNet"
NEWER: Final = {"musl-1.2.3": "musl"}
WALKER: Final = "go"  # a program that looks everything up through the whole search list


class ClientPod(NamedTuple):
    """A Pod; `address` is empty if it has none, `domain` is the cluster domain, `server` the address of its DNS.

    `path` is NAMESPACE/NAME.  `denied` has the transports over which it cannot reach the cluster's DNS.
    `remarks` name the origins of the settings, and facts that were not seen.  `others` are more addresses at
    which this server answers it, such as that of a server on its node.  `has_ipv6`: it may have an IPv6 address.
    `has_cache`: what it asks is NodeLocal DNSCache.  `has_sidecar`: it has the agent of Istio.
    """

    path: str
    dns: PodDns
    address: str
    domain: str
    server: str
    denied: tuple[tuple[str, Denial], ...] = ()
    remarks: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()
    has_ipv6: bool = True
    has_cache: bool = False
    has_sidecar: bool = False

    @property
    def servers(self) -> frozenset[str]:
        """The addresses of this server."""
        return self.others | {self.server}


class Client(NamedTuple):
    """The client: resolvers with a resolv.conf, of a Pod or not.

    `domain` is the cluster domain, `namespaces` are those of the cluster, `node` is the resolv.conf of the node, and
    `added` are lines that override the resolv.conf.  `through` is that of the settings.
    """

    resolvers: tuple[str, ...]
    text: str
    domain: str = ""
    namespaces: tuple[str, ...] = ()
    pod: ClientPod | None = None
    node: str = ""
    added: str = ""
    through: Between = NOTHING

    @property
    def settings(self) -> list[Setting]:
        """The settings of the lookups."""
        pod = self.pod
        servers, denied = (pod.servers, pod.denied) if pod is not None else (frozenset(), ())
        between, has_ipv6 = self.through, pod is None or pod.has_ipv6
        return [
            Setting(each, self.text, servers, denied, between, has_ipv6) for each in self.resolvers
        ]


class ClientCause(NamedTuple):
    """A cause as a sentence, its fix, and `found`: the setting, or name, with which the lookup succeeds."""

    cause: str
    needed: str
    setting: Setting
    name: str = ""
    found: str = ""


async def client_cause(
    client: Client, lookups: Lookups, setting: Setting, failed: LookupReport
) -> ClientCause | None:
    """The first cause that a lookup proves, or None if the client is not the cause."""
    likely: ClientCause | None = None
    both = Lookups(lookups.respond, lookups.name, (RRType.A, RRType.AAAA))
    if lookups.types in ((RRType.A,), (RRType.AAAA,)) and not (await both.look_up(setting)).error:
        return None  # the Service has no address of this family
    for each in _causes(client, setting, failed, lookups.name, lookups.types):
        if "udp" in dict(setting.blocked):  # whatever other causes there are
            return each
        found = await lookups.look_up(each.setting, each.name)
        if not found.error:
            return each._replace(found=_found(found))
        if found.error == UNSEEN and failed.error != UNSEEN:  # it tries another server
            likely = likely or each
    if likely is not None:
        return likely
    if failed.error == UNSEEN and client.pod is not None:
        return _other_server(client.pod, setting, failed)
    return None


def _causes(
    client: Client, setting: Setting, failed: LookupReport, name: str, types: Sequence[int]
) -> Iterator[ClientCause]:
    resolver, dots = setting.resolver, name.removesuffix(".").count(".")
    if setting.blocked:
        denial = setting.blocked[0][1]
        yield ClientCause(
            f"{denial.sentence}{_needs_tcp(setting, failed)}",
            denial.needed,
            setting._replace(blocked=()),
        )
    yield from _of_policy(client, setting)
    model = MODELS[resolver](setting.text, Random(0))
    whole_list = MODELS[WALKER].read(setting.text)
    conf = model.conf if model.reader.searches else whole_list
    if len(candidates(conf, name)) > len(model.names(name, types)):
        for suffix in (*whole_list.search, *_suffixes(client, failed)):
            yield ClientCause(
                f"{resolver} queries {name} as given, without the search list",
                f"use {name}.{suffix}",
                setting,
                f"{name}.{suffix}",
            )
        return
    for remark in failed.remarks:
        if "ignores the line search" in remark:
            yield ClientCause(
                f"{remark}, so it tries no search domain",
                f"list fewer or shorter domains in dnsConfig.searches: the line may have {LINE_LEN} octets",
                setting._replace(text=_shortened(setting.text)),
            )
    if client.pod is not None and "search " not in client.added:
        whole = search_list(client.pod.dns, client.domain, client.node)
        left_out = [each for each in whole if each not in failed.search]
        if left_out and len(failed.search) < len(whole):
            yield ClientCause(
                f"the kubelet writes {len(failed.search)} of {len(whole)} search domains into the resolv.conf, "
                f"and leaves out {left_out[0]}" + (" and others" if len(left_out) > 1 else ""),
                "list fewer or shorter search domains",
                _with_search(setting, whole),
            )
    if failed.ndots <= dots and not name.endswith("."):
        yield ClientCause(
            f"{name} has {counted(dots, 'dot')} and ndots is {failed.ndots}, so {resolver} tries no search domain",
            f"set ndots to {dots + 1} or more, or use the whole name",
            setting._replace(text=with_ndots(setting.text, dots + 1)),
        )
    if not name.endswith("."):
        yield ClientCause(
            f"the search list catches {name}: {failed.why}",
            f"write the name with a dot at its end, {name}.",
            setting,
            f"{name}.",
        )
    for other in (NEWER.get(resolver, ""), *(each for each in usual(types) if each != resolver)):
        if other:
            yield ClientCause(
                failed.why,
                f"use {other}" if other == NEWER.get(resolver) else f"use {other}, which goes on",
                setting._replace(resolver=other),
            )
    for suffix in _suffixes(client, failed):
        has = " ".join(failed.search) or "none"
        yield ClientCause(
            f"the search list has no {suffix}, where {_short(name)} exists; it has {_shown(failed.search)}"
            if has != "none"
            else f"there is no search list, and {_short(name)} exists in {suffix}",
            f"use {_short(name)}.{suffix}",
            _with_search(setting, (*failed.search, suffix), dots),
        )


def _of_policy(client: Client, setting: Setting) -> Iterator[ClientCause]:
    if client.pod is None:
        return
    dns, server = client.pod.dns, client.pod.server
    is_cluster = any(map(setting.is_seen, nameservers(setting.text)))
    plain = PodDns(dns.namespace, HOST_NETWORK, options=dns.options)
    usual = pod_resolv_conf(plain, server, client.domain, client.node) + client.added
    fixed = setting._replace(text=usual)
    named, asks = f"its dnsPolicy is {dns.policy}", _asks_another(client.pod, setting)
    if dns.policy == "ClusterFirst" and dns.on_host_network:
        cause = f"{named}, which on the host network means Default: it {asks}"
        yield ClientCause(cause, f"set dnsPolicy: {HOST_NETWORK}", fixed)
    elif dns.policy in ("Default", "None") and not is_cluster and not _is_on_node(dns, setting):
        yield ClientCause(f"{named}, so it {asks}", "set dnsPolicy: ClusterFirst", fixed)
    elif dns.policy in ("Default", "None") and is_cluster:
        search = MODELS[setting.resolver].read(setting.text).search
        yield ClientCause(
            f"{named}, so its search list is {_shown(search)}"
            if search
            else f"{named} and its dnsConfig has no searches, so it has no search list",
            "set dnsPolicy: ClusterFirst, or write the searches into dnsConfig",
            fixed,
        )


def _is_on_node(dns: PodDns, setting: Setting) -> bool:
    """Whether a Pod names servers on its node or beside it, which are likely to pass names on to the cluster's DNS."""
    asked = [ip_address(each.partition("%")[0]) for each in nameservers(setting.text)]
    return dns.policy == "None" and all(each.is_link_local or each.is_loopback for each in asked)


def _asks_another(pod: ClientPod, setting: Setting) -> str:
    if _is_on_node(pod.dns, setting):
        return f"queries {setting.nameservers}, a server on its node that hsdns knows nothing about"
    return f"queries {setting.nameservers}, not the cluster's DNS {pod.server}"


def _other_server(pod: ClientPod, setting: Setting, failed: LookupReport) -> ClientCause | None:
    """The cause for a client that uses another server, whose answers are not seen."""
    last = failed.seen[-1] if failed.seen else None
    if last is None or setting.is_seen(last.nameserver):
        return None
    cause = f"its dnsPolicy is {pod.dns.policy}, so it {_asks_another(pod, setting)}"
    return ClientCause(cause, "see what that server answers", setting)


def _suffixes(client: Client, failed: LookupReport) -> Iterator[str]:
    """The cluster's search domains that are not in the list, first the domain of the Pod's namespace."""
    domain = client.domain
    if not domain:
        return
    own = (client.pod.dns.namespace,) if client.pod is not None else ()
    for namespace in dict.fromkeys((*own, *client.namespaces)):
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
    text = f"{setting.text}search {' '.join(search)}\n"
    if dots is not None and MODELS[setting.resolver].read(setting.text).ndots <= dots:
        text = with_ndots(text, dots + 1)
    return setting._replace(text=text)


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


# The client's Pod: its DNS settings, its address, and the address of the cluster's DNS as its kubelet writes it.
#
# Rule 1: the kubelet's settings are not in the API.  The cluster's DNS is the given address, else the one in kubeadm's
#         ConfigMap of the kubelets, else the cluster IP of the Service; a remark says which.  The domain is the first
#         zone of the block.
# Rule 2: this server answers at that address, at those of PodReading.servers, and at those that its Corefile binds.


Tried = PodReading | PodUnreadable
InWatch = Callable[[Coroutine[Any, Any, Tried]], Awaitable[Tried]]
UNREAD_POLICIES: Final = (
    "NetworkPolicies are not known ({}); one of them may keep the Pod from the DNS"
)
ISTIO_PROXY: Final = "istio-proxy"
SIDECAR: Final = (
    "it has a sidecar of Istio; if that captures DNS, look the name up with --through istio"
)
_NAMESPACE: Final = "kube-system"
_KUBE_DNS: Final = (pack_label(_NAMESPACE), pack_label("kube-dns"))


async def find_pod(
    configuration: Configuration, path: str, given: str, in_watch: InWatch, node: str = ""
) -> ClientPod:
    """Read a pod from the first block that has pods, once the cluster is read; raise QuestionError.

    `given` is the address of the cluster's DNS, "" if none is.  `in_watch` runs a coroutine where a source is watched.
    `node` is the resolv.conf of its node.
    """
    namespace, slash, name = path.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise QuestionError(f'--from needs a namespace and a pod, as in shop/web-0, found "{path}"')
    block, reading = await _read_pod(configuration, "--from", path, in_watch)
    server, told = _cluster_dns(block, given, reading)
    domain, dns = _domain_of([block]), _dns_of(reading.spec, namespace, path)
    remarks = [f"the cluster's DNS is {server}, {told}"]
    others = {**dict.fromkeys(_bound(configuration), "as the Corefile binds"), **reading.servers}
    asked = nameservers(pod_resolv_conf(dns, server, domain, node))
    own = [each for each in asked if each == server or each in others]
    remarks += [f"it queries {each}, {others[each]}" for each in own if each != server]
    if reading.denied is None:
        remarks.append(UNREAD_POLICIES.format(reading.unread))
    # One nameserver that it reaches is enough.
    denied = [reading.denied(each) for each in own or [server]] if reading.denied else [{}]
    everywhere = {key: each for key, each in denied[0].items() if all(key in one for one in denied)}
    return ClientPod(
        path,
        dns,
        next(iter(reading.addresses), ""),
        domain,
        server,
        tuple(everywhere.items()),
        tuple(remarks),
        frozenset(others),
        not reading.addresses or any(":" in each for each in reading.addresses),
        bool(own) and reading.caches.issuperset(own),
        any(
            each.name == ISTIO_PROXY
            for each in (*(reading.spec.init_containers or ()), *(reading.spec.containers or ()))
        ),
    )


async def _read_pod(
    configuration: Configuration, asked: str, path: str, in_watch: InWatch
) -> tuple[Kubernetes, PodReading]:
    """The first block that has pods, and the pod NAMESPACE/NAME that `asked` names; raise QuestionError."""
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    for block in blocks:
        if isinstance(block.source, ApiServer | Manifests):
            break
    else:
        found = " and ".join(str(each.source) for each in blocks) or "nothing of a cluster"
        raise QuestionError(
            f"{asked} needs a source with pods, manifests or an API server, and here is {found}"
        )
    try:
        reading = await in_watch(_tried(block.source, *path.split("/")))
    except TimeoutError:
        raise QuestionError(f"the pod {path} could not be read in time; try again") from None
    if isinstance(reading, PodUnreadable):
        raise QuestionError(str(reading))
    return block, reading


def _domain_of(blocks: Sequence[Kubernetes]) -> str:
    """The cluster domain, "" if there is none."""
    zones = [zone for each in blocks for zone in each.zones if not is_reverse(zone)]
    return zones[0].to_text().removesuffix(".") if zones else ""


async def name_meant(
    configuration: Configuration, word: Word, in_watch: InWatch, *, as_typed: bool = False
) -> str:
    """The domain name that a person means, once the cluster has been read; raise QuestionError or BadWord.

    With `as_typed` a host is the name that a program looks up.
    """
    if word.kind == "address" or (as_typed and word.kind == "host"):
        return word.name
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    key = word.namespace.encode(), word.name.encode()
    if word.kind == "pod":
        return await _name_of_pod(configuration, word, in_watch)
    if word.kind == "object" and not any(key in each.store.services.values for each in blocks):
        with suppress(QuestionError):  # then it is a Service that does not exist
            return await _name_of_pod(configuration, word, in_watch)
    zones = {zone for each in configuration.listeners for zone in each.zones}
    zones.update(zone for each in blocks for zone in each.zones)

    def has_namespace(name: str) -> bool:
        if any(name.encode() in each.store.namespaces for each in blocks):
            return True
        for each in blocks:
            if why := each.unread("" if not each.store.serves else name):
                raise QuestionError(UNKNOWN_NAME.format(why, word.name))
        return False

    return full_name(
        word,
        _domain_of(blocks),
        [zone.to_text() for zone in zones if zone.labels],
        has_namespace,
    )


async def _name_of_pod(configuration: Configuration, word: Word, in_watch: InWatch) -> str:
    """The name with its hostname and its Service, else with its address."""
    path = f"{word.namespace or word.default}/{word.name}"
    block, reading = await _read_pod(configuration, f"pod/{word.name}", path, in_watch)
    namespace, domain, spec = path.partition("/")[0], _domain_of([block]), reading.spec
    if spec.hostname and spec.subdomain:
        return f"{spec.hostname}.{spec.subdomain}.{namespace}.svc.{domain}."
    why = "its spec has no hostname and subdomain"
    if block.answers.lookup.pods == "disabled":
        raise QuestionError(f"Pod {path} has no name: {why}, and kubernetes has no pods insecure")
    if not reading.addresses:
        raise QuestionError(f"Pod {path} has no name: {why}, and it has no address yet")
    return f"{dashed_text(reading.addresses[0]).decode()}.{namespace}.pod.{domain}."


def _bound(configuration: Configuration) -> Iterator[str]:
    """The addresses at which others than the host itself reach this server, if its Corefile names any."""
    for each in configuration.listeners:
        host = each.listen.host
        if each.listen.scheme == "dns" and host and not each.listen.is_wildcard:
            with suppress(ValueError):
                if not ip_address(host).is_loopback:
                    yield host


async def _tried(source: ApiServer | Manifests, namespace: str, name: str) -> Tried:
    """Return an error as a result, because a failed task would be logged."""
    try:
        return await source.read_pod(namespace, name)
    except PodUnreadable as error:
        return error


async def client_of(
    configuration: Configuration, asking: LookupQuestion, in_watch: InWatch
) -> Client:
    """The client, once the cluster has been read; raise QuestionError."""
    node = asking.resolv_conf
    blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
    names = sorted({name for each in blocks for name in each.store.namespaces.copy()})
    namespaces = tuple(name.decode("ascii", "replace") for name in names)
    if asking.pod:
        pod = await find_pod(configuration, asking.pod, asking.cluster_dns, in_watch, node)
        domain, text = pod.domain, pod_resolv_conf(pod.dns, pod.server, pod.domain, node)
    else:
        domain = _domain_of(blocks)
        pod, text = None, node
    text = overridden(text, asking.search, asking.ndots)
    through = Between(asking.through)
    if class_of(through.name).captures:
        known = [each.registry(domain) for each in blocks]
        through = Between(
            through.name, {name: found for each in known for name, found in each.items()}
        )
    is_cached = pod is not None and pod.has_cache and not through.name
    if pod is not None and (is_cached or class_of(through.name).splits):
        of_node = "".join(f"nameserver {each}\n" for each in nameservers(node) or ["node"])
        own = f"nameserver {pod.server}\n{of_node}"
        through = Between(NodeLocalDns.name, text=own, domain=pod.domain)
    if not through.name and pod is not None and pod.has_sidecar:
        pod = pod._replace(remarks=(*pod.remarks, SIDECAR))
    return Client(
        asking.resolvers,
        text,
        domain,
        namespaces,
        pod,
        node,
        asking.added,
        through,
    )


def _cluster_dns(block: Kubernetes, given: str, reading: PodReading) -> tuple[str, str]:
    """The address of the cluster's DNS, and its origin; raise QuestionError if it is not known."""
    if given:
        try:
            return str(ip_address(given)), "as given"
        except ValueError:
            raise QuestionError(f'--cluster-dns needs an IP address, found "{given}"') from None
    if reading.cluster_dns:
        return reading.cluster_dns, "clusterDNS in ConfigMap kube-system/kubelet-config"
    value = block.store.services.values.get(_KUBE_DNS)  # type: ignore[arg-type]  # both are labels
    if value is not None and value.cluster_ips:
        return address_to_text(value.cluster_ips[0]), "the cluster IP of Service kube-system/kube-dns"  # fmt: skip
    for address, where in reading.servers.items():
        if where.startswith("the cluster IP"):
            return address, where
    unread = block.unread(_NAMESPACE)
    if isinstance(block.source, ApiServer) and not unread:
        raise QuestionError(
            "there is no Service kube-system/kube-dns with a cluster IP, so the address that the kubelet writes "
            "is not known; give it with --cluster-dns ADDRESS"
        )
    return USUAL_DNS, f"as usual: {unread or 'no Service kube-system/kube-dns'}"


def _dns_of(spec: PodSpec, namespace: str, path: str) -> PodDns:
    policy = spec.dns_policy or "ClusterFirst"
    if policy not in POLICIES:
        hint = did_you_mean(policy, POLICIES)
        raise QuestionError(f'dnsPolicy of the pod {path} is "{policy}", which is none{hint}')
    config = spec.dns_config
    nameservers: Sequence[str] = (config.nameservers if config else None) or []
    for address in nameservers:
        if not is_address(address):
            raise QuestionError(
                f'dnsConfig of the pod {path} has the nameserver "{address}", which is not an IP address'
            )
    if policy == "None" and not nameservers:
        raise QuestionError(
            f"the pod {path} has dnsPolicy None, but no nameserver in its dnsConfig"
        )
    return PodDns(
        namespace,
        policy,
        bool(spec.host_network),
        nameservers,
        (config.searches if config else None) or [],
        {each.name: each.value or "" for each in (config.options if config else None) or ()},
    )
