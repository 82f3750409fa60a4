"""Explains one question: runs the observed chain, then finds the origin of the answer, or the missing changes.

Path: cli/explain.py -> here -> observed.py (the answer), fate.py, scene.py, nearest.py -> report.Explanation.
Rule 1: the explained answer is the reply of the chain.
Rule 2: if the cluster could not be read, this is reported as the cause, never that objects do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from hsdns.assemble import Configuration, ServedAddress
from hsdns.chain import Endpoint, Request
from hsdns.cluster.address import pack_address
from hsdns.cluster.freshness import Dependencies
from hsdns.cluster.lookup import NoSuchName
from hsdns.cluster.pods import address_in
from hsdns.cluster.question import POD, ParsedName
from hsdns.cluster.reading import Lead
from hsdns.cluster.reverse import address_of, is_reverse
from hsdns.cluster.value import Node
from hsdns.explanation.candidates import candidates, of_address
from hsdns.explanation.fate import Fates
from hsdns.explanation.live import Seen, SeesObjects
from hsdns.explanation.nearest import nearest
from hsdns.explanation.observed import (
    Edges,
    Observation,
    Pause,
    Visit,
    cluster_visit,
    observed_chain,
    summary,
)
from hsdns.explanation.records import (
    keep_seconds,
    past,
    record_reports,
    table_state,
    table_text,
    table_use,
)
from hsdns.explanation.report import (
    VERSION,
    ChangeReport,
    EndpointReport,
    Explanation,
    NeededChange,
    Outcome,
    PluginStep,
    ServiceReport,
)
from hsdns.explanation.scene import Change, ClusterObjects, Lacking, Replay, Scene, smallest, text
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.query import QueryProcessor
from hsdns.wire import printable
from hsdns.wire.iana import Rcode, RRType, rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import ROOT, Name
from hsdns.wire.rdata import address_to_text

# The first line of the explanation of an existing name: its records, or why it has none of the type.


def cause_of(
    block: Kubernetes,
    qtype: int,
    reply: Reply,
    found: tuple[Node, ParsedName] | bytes | None,
    service: ServiceReport | None,
    owners: str,
) -> str:
    """Why an existing name of the cluster has its records, without the rcode; `owners` have the queried address."""
    if isinstance(found, bytes):
        if not reply.answer:
            return f"the address in the name has no {type_to_text(qtype)} record"
        if block.options["pods"] == "verified":
            return "a pod of the namespace has the address (`pods verified`)"
        return "the address is in the name itself, whether a pod has it or not (`pods insecure`)"
    if service is None or found is None:
        if reply.answer:
            where = owners or "the zone itself"
            return f"{_counted(len(reply.answer), f'{type_to_text(qtype)} record')} of {where}"
        return f"the name exists, but has no {type_to_text(qtype)} record"
    place = f"{service.object} {service.namespace}/{service.name}"
    if service.kind == "ExternalName":
        own = f"{service.name}.{service.namespace}.svc."
        if not reply.answer and service.external_name.lower().startswith(own):
            return f"{place} is of type ExternalName, and its externalName is its own name"
        if not reply.answer:
            return f"{place} is of type ExternalName, and {service.external_name} has no such record in the cluster"
        return f"CNAME to {service.external_name}, the externalName of {place}"
    endpoints = [each for part in service.slices for each in part.endpoints]
    _, parsed = found
    if service.kind != "headless" and not parsed.endpoint:
        if reply.answer and service.kind == "ClusterSetIP":
            return f"the IP address of {place}"
        if reply.answer:
            return (
                f"the cluster IP of {place}, which is not headless: its pods are not in the answer"
            )
        return f"{place} has no {type_to_text(qtype)} record: its cluster IPs are {_listed(service.cluster_ips)}"
    if not reply.answer:
        return f"{place} has no {type_to_text(qtype)} record{_why_no_record(endpoints, qtype)}"
    if parsed.endpoint:
        label = parsed.endpoint.decode("utf-8", "replace")
        return f"endpoint {label} of {place}{_notable(endpoints)}"
    return f"{_share(endpoints)} of headless {place}{_notable(endpoints)}"


def _share(endpoints: Sequence[EndpointReport]) -> str:
    answered = sum(each.fate == "answered" for each in endpoints)
    return f"{answered} of {_counted(len(endpoints), 'endpoint')}"


def _notable(endpoints: Sequence[EndpointReport]) -> str:
    """The endpoints that are left out, and the suspicious endpoints in the answer, with the first reason."""
    found = ""
    odd = [each for each in endpoints if each.fate == "answered" and each.why]
    if odd:
        found += f"; {len(odd)} {odd[0].why}"
    out = [each for each in endpoints if each.fate == "left out"]
    about = [each for each in out if not each.why.startswith(("its name", "no hostname"))]
    if about:
        reasons = list(dict.fromkeys(each.why for each in about))
        more = " and others" if len(reasons) > 1 else ""
        found += f"; {len(about)} left out ({reasons[0]}{more})"
    return found


def _why_no_record(endpoints: Sequence[EndpointReport], qtype: int) -> str:
    if qtype in (RRType.A, RRType.AAAA) and endpoints:
        family = "IPv4" if qtype == RRType.A else "IPv6"
        return f": none of its ready endpoints has an {family} address"
    if qtype == RRType.SRV and endpoints:
        return ": its EndpointSlices have no port number"
    return ""


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


CLIENT: Final = Endpoint("127.0.0.1", 0)


class Explainer:
    """Explains answers of the server blocks of a configuration, whose kubernetes blocks have started.

    `seeing` finds the objects of each kubernetes block by id().  `lacking` has the changes that the last name needs.
    """

    def __init__(
        self, configuration: Configuration, seeing: Mapping[int, SeesObjects], edges: Edges
    ) -> None:
        self._configuration, self._seeing, self._edges = configuration, seeing, edges
        self.lacking = Lacking(Scene.of(()))

    async def explain(
        self, qname: Name, qtype: int, now: float, problems: Sequence[str] = ()
    ) -> Explanation:
        """Explain one question; `now` in monotonic seconds, `problems` are errors of reading the cluster."""
        edges, listener = self._edges, self._listener(qname)
        server = listener.listen.server
        visits: list[Visit] = []
        processor = await self._processor(listener, visits)
        query = Query.ask(qname, qtype)
        protocol = "udp" if edges.asks else "tcp"
        counted = None if edges.counters is None else Dependencies(edges.counters)
        request = Request(
            query,
            CLIENT,
            CLIENT,
            protocol,
            server,
            ROOT,
            now,
            dependencies=counted,
            resolver=processor,
        )
        reply = await edges.run(processor.resolve(request))
        await edges.pause()
        visits = [each for each in visits if each.request.depth == 0]
        blocks = [each for each in self._configuration.plugins if isinstance(each, Kubernetes)]
        question = _Question(query, reply, visits, blocks, edges.pause)
        question.problems = problems
        if question.block is not None:
            seeing = self._seeing[id(question.block)]
            seen = await seeing.see(question.lead)
            await edges.pause()
            question.look(question.block, seen)
            await edges.pause()
        explanation = await question.explanation(*self._block(listener, qname, visits))
        self.lacking = question.lacking
        if counted is None or not visits:
            return explanation
        use = table_use(listener, visits, query, reply, counted)
        state = table_state(edges.peek, self._servers(listener, qname), query, edges.clock())
        return structs.replace(explanation, table=table_text(use, state), in_table=state)

    async def ask(
        self, wire: bytes, client: Endpoint, transport: str, now: float
    ) -> tuple[bytes | None, str]:
        """The reply to a resolver's message, and the other servers that would be queried for it.

        The message goes to the first listen address for plain DNS; `now` in monotonic seconds.
        """
        listeners = self._configuration.listeners
        listener = next(each for each in listeners if each.listen.scheme == "dns")
        visits: list[Visit] = []
        processor = await self._processor(listener, visits)
        reply = await processor.answer(wire, client, client, transport, now)
        return reply, next((each.whom for each in visits if each.whom), "")

    async def _processor(self, listener: ServedAddress, visits: list[Visit]) -> QueryProcessor:
        """A processor that answers at an address as the server does, and notes the visits."""
        edges = self._edges
        observation = Observation(visits, edges.asks, edges.clock)
        chains = {
            id(block): observed_chain(block.handlers, observation, edges.spawn)
            if block.handlers
            else None
            for blocks in listener.served.values()
            for block in blocks
        }
        await edges.pause()
        processor = QueryProcessor(
            listener.listen.server, listener.block_choice(chains), any_class=listener.any_class
        )
        await edges.pause()
        return processor

    def _listener(self, qname: Name) -> ServedAddress:
        """The address with the longest zone of the name; the first of several."""
        listeners = self._configuration.listeners

        def length(listener: ServedAddress) -> int:
            zone = qname.longest_of(listener.zones)
            return -1 if zone is None else len(zone.labels)

        return max(listeners, key=length)

    def _servers(self, listener: ServedAddress, qname: Name) -> list[str]:
        """The server of an address, and other servers that serve the name with the same zone."""
        zone = qname.longest_of(listener.zones)
        same = [
            each for each in self._configuration.listeners if qname.longest_of(each.zones) == zone
        ]
        return [each.listen.server for each in same]

    def _block(
        self, listener: ServedAddress, qname: Name, visits: Sequence[Visit]
    ) -> tuple[str, str]:
        """The server block that answered, and why it was chosen."""
        zones = list(listener.zones)
        port = listener.listen.port
        matching = [zone for zone in zones if qname.is_at_or_below(zone)]
        if not matching:
            shown = ", ".join(zone.to_text() for zone in zones)
            return "", f"no server block has a zone for the name; the zones are {shown}"
        zone = visits[0].request.zone if visits else max(matching, key=lambda each: len(each.labels))  # fmt: skip
        name = f"{zone.to_text()}:{port}"
        others = [each for each in matching if each != zone]
        if others:
            shown = ", ".join(each.to_text() for each in others)
            return name, f"the longest zone that has the name; {shown} also has it"
        return name, "the only zone that has the name"


class _Question:
    """One question with its reply, and the findings about them."""

    def __init__(
        self,
        query: Query,
        reply: Reply,
        visits: Sequence[Visit],
        blocks: Sequence[Kubernetes],
        pause: Pause,
    ) -> None:
        self.blocks, self._pause = blocks, pause
        self.problems: Sequence[str] = ()
        self.qname, self.qtype, self.reply = query.qname, query.qtype, reply
        self.visits = visits
        self.cluster = cluster_visit(visits)
        handler = self.cluster.handler if self.cluster is not None else None
        self.block = handler if isinstance(handler, Kubernetes) else None
        self.seen = Seen(ClusterObjects())
        self.parsed: ParsedName | None = None
        self.found: tuple[Node, ParsedName] | bytes | None = None
        self.asked = self.cluster.request.query.qname if self.cluster is not None else self.qname
        self.asked_type = (
            self.cluster.request.query.qtype if self.cluster is not None else self.qtype
        )
        self.scene = Scene.of(())
        self.replay: Replay | None = None
        self.lacking = Lacking(self.scene)
        if self.block is not None:
            zone = self.asked.longest_of(self.block.zones)
            assert zone is not None, "visited"
            self.parsed = self.block.answers.lookup.parse(self.asked, zone)
            self.replay = Replay(self.block, zone)

    @property
    def known(self) -> ClusterObjects:
        """The objects that the name leads to, and their pods."""
        return self.seen.objects

    @property
    def lead(self) -> Lead:
        """The lead from the question to its objects."""
        replay, parsed = self.replay, self.parsed
        address = address_of(self.asked) if is_reverse(self.asked) else None
        if address is not None:
            return Lead(address=address_to_text(address))
        if replay is None or parsed is None or not parsed.namespace:
            return Lead()
        lead = Lead((parsed.namespace,))
        if parsed.kind == POD:
            pod = address_in(parsed.name)
            return lead._replace(address=address_to_text(pod)) if pod is not None else lead
        shared = replay.block.answers.lookup.is_multicluster(replay.zone)
        keys = ((parsed.namespace, parsed.name),) if parsed.name else ()
        return lead._replace(services=keys, shared=shared)

    def look(self, block: Kubernetes, seen: Seen) -> None:
        """Read the objects of the lead."""
        self.seen = seen
        address = address_of(self.asked) if is_reverse(self.asked) else None
        if address is not None:
            self.scene = Scene.of(self.known.of_address(address))
        elif self.parsed is not None:
            assert self.replay is not None, "there is a block"
            shared = block.answers.lookup.is_multicluster(self.replay.zone)
            self.scene = Scene.of(self.known.of_name(self.parsed, shared=shared))
        assert self.replay is not None, "there is a block"
        try:
            self.found = block.answers.lookup.find(self.asked, self.replay.zone, None)
        except NoSuchName:
            self.found = None

    async def explanation(self, server_block: str, block_reason: str) -> Explanation:
        blind = self._blind()
        needed: tuple[Change, ...] = ()
        service = await self._service()
        if self._is_missing and not (self.block and not self.block.store.serves):
            needed = await self._needed()
        self.lacking = Lacking(self.scene, needed)
        await self._pause()
        outcome, cause = self._cause(blind, needed, service)
        near = []
        if outcome != "resolves" and self.reply.rcode:
            blocks = [self.block] if self.block is not None else self.blocks
            for block in blocks:
                if block.store.serves:
                    near += await nearest(block, self.asked, self.asked_type, self._pause)
        if near and not needed and (self._is_missing or not self.visits):
            cause = f"{cause}; {near[0].why}"
        await self._pause()
        records = await record_reports(
            self.reply, self.visits, self.cluster, self.found, self._pause
        )
        rcode = rcode_to_text(self.reply.rcode)
        return Explanation(
            VERSION,
            self.qname.to_text(),
            type_to_text(self.qtype),
            outcome,
            rcode,
            printable(cause if outcome == "could not tell" else f"{rcode}: {cause}"),
            blind,
            server_block,
            block_reason,
            [PluginStep(each.handler.name, each.did) for each in self.visits],
            self._reading(),
            service,
            records,
            [NeededChange(each.place, each.cause, each.needed) for each in needed],
            near,
            self._history(),
            keep_seconds=keep_seconds(self.reply),
        )

    def _history(self) -> list[ChangeReport]:
        if self.block is None or self.parsed is None:
            return []
        return past(self.block.store.services.history, self.lead, self.parsed.endpoint)

    @property
    def _is_missing(self) -> bool:
        """Whether the cluster does not have the name."""
        replay = self.replay
        if replay is None:
            return False
        return replay.block.answers.is_missing(self.asked, self.asked_type, replay.zone)

    @property
    def _exists_now(self) -> bool:
        """Whether the name exists with the objects as their source has them."""
        replay = self.replay
        return replay is not None and replay.exists(self.scene, self.asked, self.asked_type)

    @property
    def _would_ask(self) -> str:
        return next((each.would_ask for each in self.visits if each.would_ask), "")

    def _blind(self) -> list[str]:
        if self.block is None:
            return []
        if not self.block.store.serves:
            reasons = [each.removeprefix("plugin/kubernetes: ") for each in self.problems]
            return [*reasons, f"the cluster has not been read from {self.block.source}"]
        found = [*self.seen.remarks, *self.seen.behind]
        if remark := self.block.remark():
            found.insert(0, f"{remark}; a snapshot has no endpoint that was not ready")
        return found

    async def _needed(self) -> tuple[Change, ...]:
        replay, parsed = self.replay, self.parsed
        if replay is None:
            return ()
        options: Iterable[Change | None] = ()
        if is_reverse(self.asked):
            options = of_address(address_of(self.asked) or b"", self.scene, self.known)
        elif parsed is not None and parsed.name:
            options = candidates(parsed, self.scene, self.known, replay)
        return await smallest(replay, self.scene, options, self.asked, self.asked_type, self._pause)

    async def _service(self) -> ServiceReport | None:
        parsed = self.parsed
        if self.replay is None or parsed is None or not parsed.name or parsed.kind == POD:
            return None
        if is_reverse(self.asked) or not (self.scene.services or self.scene.imports):
            return None
        assert self.cluster is not None, "as there is a replay"
        own = self.cluster.reply.answer if self.cluster.reply is not None else ()
        if self.cluster.passed is not None:
            own = ()
        fates = Fates(
            self.replay, self.scene, self.known, parsed, (self.asked, self.asked_type), own
        )
        if self.scene.imports:
            return await fates.imported(self.scene.imports[0], self._pause)
        return await fates.service(self.scene.services[0], self._pause)

    def _cause(
        self, blind: Sequence[str], needed: Sequence[Change], service: ServiceReport | None
    ) -> tuple[Outcome, str]:
        block, reply = self.block, self.reply
        if block is not None and not block.store.serves:
            return "could not tell", f"hsdns cannot see the cluster: {blind[0]}"
        lacks = self._lacks(needed) if self._is_missing else ""
        if self._would_ask:
            why = f"not in the cluster: {lacks}; then " if lacks else ""
            plugin = next(each.handler.name for each in self.visits if each.would_ask)
            return "could not tell", f"{why}{plugin} {self._would_ask}"
        if lacks and self.cluster is not None and self.cluster.passed is None:
            if self.seen.is_partial or (block is not None and block.remark()):
                return "could not tell", f"{blind[0]}; as far as is known, {lacks}"
            return "does not resolve", lacks
        outcome: Outcome = "resolves" if reply.answer and not reply.rcode else "does not resolve"
        made = next((each for each in reversed(self.visits) if each.passed is None), None)
        if made is None:
            return outcome, "no server block has a zone for the name"
        if block is not None and made is self.cluster:
            assert made.reply is not None, "it did not raise"
            return outcome, cause_of(
                block, self.asked_type, made.reply, self.found, service, self._owners()
            )
        if made.told:
            error = f": {made.reply.error}" if made.reply is not None and made.reply.error else ""
            return outcome, f"plugin {made.handler.name} {made.did}{error}"
        if made.reply is not None and not made.reply.written and made.reply.rcode == Rcode.SERVFAIL:
            return outcome, f"no plugin after {made.handler.name} answers the name"
        return outcome, f"plugin {made.handler.name} answered {summary(reply)}"

    def _lacks(self, needed: Sequence[Change]) -> str:
        """Explain why the cluster does not have the name."""
        if self.seen.behind and self._exists_now:
            return f"{self.seen.behind[0]}; with that the name exists"
        if needed:
            return "; and ".join(each.cause for each in needed)
        parsed, block = self.parsed, self.block
        assert block is not None, "the cluster was asked"
        if is_reverse(self.asked):
            if address_of(self.asked) is None:
                return "names of the zone are those of whole addresses, and this is none"
            return "no Service has the address as its cluster IP, and no ready endpoint has it"
        if parsed is not None and parsed.kind == POD and parsed.name:
            return (
                f'in the pod zone names are addresses, such as 10-0-0-1, and "{text(parsed.name)}" '
                "is none"
            )
        replay = self.replay
        assert replay is not None, "the cluster was asked"
        lookup = block.answers
        if not lookup.is_missing(self.asked, RRType.A, replay.zone):
            rrtype = type_to_text(self.asked_type)
            return f"the name has an A record, but {rrtype} is answered so, as CoreDNS does"
        if parsed is None:
            return f"no name of zone {replay.zone.to_text()} has this form"
        if not parsed.name:
            return f"there is no namespace {text(parsed.namespace)}"
        return f"no object of the cluster has the name {self.asked.to_text()}"

    def _owners(self) -> str:
        """The objects that have the address of a reverse name."""
        address = address_of(self.asked) if is_reverse(self.asked) else None
        if address is None:
            return ""
        for service in self.scene.services:
            texts = [*(service.spec.cluster_ips or ()), service.spec.cluster_ip or ""]
            if any(pack_address(each) == address for each in texts):
                return f"the cluster IP of Service {service.metadata.namespace}/{service.metadata.name}"  # fmt: skip
        places = [f"{each.metadata.namespace}/{each.metadata.name}" for each in self.scene.slices]
        return f"an endpoint in EndpointSlice {', '.join(places)}"

    def _reading(self) -> dict[str, str]:
        parsed = self.parsed
        if parsed is None or self.replay is None:
            return {}
        found = {"zone": self.replay.zone.to_text()}
        fields = ("kind", "namespace", "endpoint", "cluster", "port", "protocol", "topology_zone")
        for field in fields:
            value = getattr(parsed, field)
            if value:
                found[field] = text(value)
        if parsed.name:
            found["address" if parsed.kind == POD else "service"] = text(parsed.name)
        return found
