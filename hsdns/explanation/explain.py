"""Explains one question: runs the observed chain, then finds the origin of the answer, or the missing changes.

Path: explanation/cli.py -> here -> observed.py (the answer), fate.py, scene.py, nearest.py -> report.Explanation.
Rule 1: the explained answer is the reply of the chain.
Rule 2: if the cluster could not be read, this is reported as the cause, never that objects do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from hsdns.assemble import Configuration, ServedAddress
from hsdns.causes.alias import cause_of_missing, service_of, through
from hsdns.causes.behind import cause_behind, cause_of_pod, leads_somewhere
from hsdns.causes.cause import Cause
from hsdns.causes.view import View, manifest_of
from hsdns.chain import Endpoint, Request
from hsdns.cluster.address import address_of, is_reverse, pack_address
from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.freshness import Dependencies
from hsdns.cluster.lookup import MOST_ALIASES, NoSuchName
from hsdns.cluster.objects import Object, Pod, Service
from hsdns.cluster.schema import POD, ParsedName
from hsdns.cluster.source import Lead
from hsdns.cluster.store import address_in
from hsdns.cluster.value import Node
from hsdns.errors import OperatorError
from hsdns.explanation.candidates import Candidates, of_address
from hsdns.explanation.fate import Fates
from hsdns.explanation.live import LiveObjects, Seen
from hsdns.explanation.nearest import Nearest, nearest
from hsdns.explanation.observed import (
    Edges,
    ObservedProcessor,
    Pause,
    Visit,
    cluster_visit,
    not_known,
    observed_chain,
)
from hsdns.explanation.records import (
    cause_of,
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
    Explanation,
    NeededChange,
    Outcome,
    PluginStep,
    ServiceReport,
    to_be_done,
)
from hsdns.explanation.scene import Change, Lacking, Replay, Scene, smallest
from hsdns.faults.rules import Rule
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.manifests import text
from hsdns.wire import counted, printable
from hsdns.wire.iana import ADDRESSES, RRType, rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import ROOT, Name
from hsdns.wire.rdata import address_to_text

NO_PLAIN: Final = "{}: no server block answers plain DNS, so no resolver can query it"
ADD_FORWARD: Final = "add forward to the block, or take autopath out"
CLIENT: Final = Endpoint("127.0.0.1", 0)


class Explainer:
    """Explains answers of the server blocks of a configuration, whose kubernetes blocks have started.

    `seeing` finds the objects of each kubernetes block by id().
    """

    def __init__(
        self, configuration: Configuration, seeing: Mapping[int, LiveObjects], edges: Edges
    ) -> None:
        self._configuration, self._seeing, self._edges = configuration, seeing, edges
        self.client = CLIENT  # who asks

    async def explain(
        self, qname: Name, qtype: int, now: float, problems: Sequence[str] = ()
    ) -> Explanation:
        """Explain one question; `now` in monotonic seconds, `problems` are errors of reading the cluster."""
        explanation, _ = await self.explain_with_changes(qname, qtype, now, problems)
        return explanation

    async def explain_with_changes(
        self, qname: Name, qtype: int, now: float, problems: Sequence[str] = ()
    ) -> tuple[Explanation, Lacking]:
        """Explain one question, and return the changes that its name needs."""
        edges, pause, listener = self._edges, self._edges.pause, self._listener(qname)
        visits: list[Visit] = []
        processor = await self._processor(listener, visits)
        query, transport = Query.ask(qname, qtype), "udp" if edges.asks else "tcp"
        dependencies = None if edges.counters is None else Dependencies(edges.counters)
        request = Request(
            query, self.client, CLIENT, transport, listener.listen.server, ROOT, now,
            dependencies=dependencies,
        )  # fmt: skip
        reply = await edges.run(processor.resolve(request))
        await pause()
        doubt = processor.doubt()
        visits = [each for each in visits if each.request.depth == 0]
        visit, cluster = cluster_visit(visits, reply.rcode), None
        needed: tuple[Change, ...] = ()
        service = None
        if visit is not None:
            cluster = await _Cluster.read(visit, self._seeing, problems, pause)
            await cluster.trace(self._seeing[id(cluster.block)])
            service = await cluster.service(pause)
            if cluster.is_missing and not not_known(cluster.block, cluster.query):
                needed = await cluster.needed(pause)
        await pause()
        rcode = rcode_to_text(reply.rcode)
        outcome, cause = _outcome(reply, visits, cluster, needed, service, doubt.why)
        blind = [] if cluster is None else cluster.blind
        # An answer whose dead end is known says nothing of its target.
        is_dead_end = cluster is not None and cluster.cause is not None and not reply.rcode
        is_alias = bool(reply.answer) and not reply.rcode and outcome == "does not resolve"
        if is_alias and not is_dead_end:
            if doubt.why:
                outcome, cause = "could not tell", f"{rcode}: {cause}; {doubt.why}"
            else:
                cause += (
                    "; no server block has a zone for its target, which is REFUSED"
                    if processor.refused
                    else f"; its target has no {type_to_text(qtype)} record"
                )
        elif doubt.why and not is_dead_end and (outcome != "could not tell" or doubt.is_unread):
            outcome, cause = "could not tell", doubt.why
            blind = [] if doubt.is_unread else blind
        todo = ADD_FORWARD if ADD_FORWARD in cause else ""
        if not todo and outcome in ("leads nowhere", "does not resolve") and cluster is not None:
            todo = cluster.todo(needed)
        if not todo and outcome == "does not resolve" and not reply.rcode and service is not None:
            todo = _of_family(service, qtype)
        near = Nearest()
        if outcome != "resolves" and reply.rcode and not _is_unanswered(visits, reply):
            near = await self._nearest(query, cluster)
        if near.hint and (cluster is None or (cluster.is_missing and cluster.cause is None)):
            whom = next((each.whom for each in visits if each.whom and not each.is_loop), "")
            if edges.is_builtin and cluster is None and not whom:
                cause = ""  # where it would be asked does not matter
            is_known = whom or cluster is None or outcome != "could not tell"
            cause, use = _with_names(near, cause, needed, whom, replaces=bool(is_known))
            todo = use or todo
        await pause()
        found = None if cluster is None else cluster.found
        records = await record_reports(reply, visits, visit, found, pause)
        server_block, reason = self._block(listener, qname, visits)
        state, table = None, ""
        if dependencies is not None and visits:
            use = table_use(listener, visits, query, reply, dependencies)
            state = table_state(edges.peek, self._servers(listener, qname), query, edges.clock())
            table = table_text(use, state)
        cause = cause if outcome == "could not tell" else f"{rcode}: {cause}"
        rules = [hit for each in visits for hit in each.foreseen or ()]
        if rules:
            outcome, cause, todo = _with_rules(rules, outcome, cause, todo)
        explanation = Explanation(
            VERSION,
            qname.to_text(),
            type_to_text(qtype),
            outcome,
            rcode,
            printable(cause),
            blind,
            server_block,
            reason,
            [PluginStep(each.handler.name, each.did) for each in visits],
            {} if cluster is None else cluster.reading,
            service,
            records,
            [NeededChange(each.place, each.cause, each.needed) for each in needed],
            list(near.names),
            [] if cluster is None else cluster.history,
            table=table,
            keep_seconds=keep_seconds(reply),
            in_table=state,
            todo=printable(todo),
            is_intended=cluster is not None and cluster.cause is not None,
            faults=[rule.cause(hits=hits).sentence for rule, hits in rules],
        )
        return explanation, Lacking(Scene.of(()) if cluster is None else cluster.scene, needed)

    async def ask(
        self, wire: bytes, client: Endpoint, transport: str, now: float, server: str = ""
    ) -> tuple[bytes | None, str]:
        """The reply to a resolver's message, and why it is not the server's, "" if it is: another server would answer.

        Without a reply the resolver would not go on to another name either.  The message goes to the listen address for
        plain DNS that is `server`, or else to the first one; `now` in monotonic seconds.
        """
        plain = [each for each in self._configuration.listeners if each.listen.scheme == "dns"]
        bound = [each for each in plain if each.listen.host == server]
        listener = next(iter(bound or plain), None)
        if listener is None:
            raise OperatorError(NO_PLAIN.format(self._configuration.corefile.path))
        processor = await self._processor(listener, [])
        reply = await processor.answer(wire, client, client, transport, now)
        doubt = processor.doubt()
        return (reply if doubt.goes_on else None) if doubt.why else reply, doubt.why

    async def _nearest(self, query: Query, cluster: _Cluster | None) -> Nearest:
        """The names that exist near to a missing one, of the block that was asked, else of the first that has any."""
        if cluster is not None:
            query, blocks = cluster.query, [cluster.block]
        else:
            plugins = self._configuration.plugins
            blocks = [each for each in plugins if isinstance(each, Kubernetes)]
        for block in blocks:
            if not block.store.serves:
                continue
            seen = cluster.seen if cluster else await self._seeing[id(block)].see(_of_pod(query))
            pods = [each for each in seen.objects if isinstance(each, Pod)]
            found = await nearest(block, query.qname, query.qtype, pods, self._edges.pause)
            if found.names:
                if not await self._are_answered(found, query.qtype):
                    return Nearest()
                return found._replace(shown=_with_what_is_behind(block, found))
            if found.hint:
                return found
        return Nearest()

    async def _are_answered(self, near: Nearest, qtype: int) -> bool:
        """Whether no plugin, such as `rewrite` or `hosts`, keeps clients from the names; no other server is asked."""
        for each in near.names:
            qname = Name.from_text(each.name)
            listener, server = self._listener(qname), self._edges._replace(asks=False)
            processor = await self._processor(listener, [], server)
            address, query = listener.listen.server, Query.ask(qname, qtype)
            request = Request(query, CLIENT, CLIENT, "tcp", address, ROOT, server.clock())
            reply = await server.run(processor.resolve(request))
            if reply.rcode and not processor.doubt().why:
                return False
        return True

    async def _processor(
        self, listener: ServedAddress, visits: list[Visit], edges: Edges | None = None
    ) -> ObservedProcessor:
        """A processor that answers at an address as the server does, and notes the visits."""
        edges = edges or self._edges
        chains = {
            id(block): observed_chain(block.handlers, visits, edges) if block.handlers else None
            for blocks in listener.served.values()
            for block in blocks
        }
        await edges.pause()
        processor = ObservedProcessor(
            listener.listen.server,
            listener.block_choice(chains),
            any_class=listener.any_class,
            visits=visits,
            is_builtin=edges.is_builtin,
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


def _outcome(
    reply: Reply,
    visits: Sequence[Visit],
    cluster: _Cluster | None,
    needed: Sequence[Change],
    service: ServiceReport | None,
    doubt: str,
) -> tuple[Outcome, str]:
    """Whether the name resolves, and why; `doubt` says why the reply is not known."""
    if any(each.reply is None for each in visits):
        return "could not tell", doubt
    if cluster is not None and not cluster.block.store.serves:
        return "could not tell", f"hsdns cannot see the cluster: {cluster.blind[0]}"
    lacks = ""
    if cluster is not None and cluster.is_missing:
        lacks = cluster.lacks(needed)
    asking = next((each for each in visits if each.would_ask), None)
    if asking is not None:
        why = f"not in the cluster: {lacks}; then " if lacks else ""
        return "could not tell", f"{why}{asking.handler.name} {asking.would_ask}"
    if _is_unanswered(visits, reply):
        return "does not resolve", _unanswered(visits)
    if lacks and cluster is not None and cluster.visit.passed is None:
        if (cluster.seen.is_partial and not cluster.left_out) or cluster.block.remark():
            return "could not tell", f"{cluster.blind[0]}; as far as is known, {lacks}"
        return "does not resolve", lacks
    outcome: Outcome = "resolves" if _has_records(visits, reply) else "does not resolve"
    made = next((each for each in reversed(visits) if each.passed is None), None)
    if made is None:
        return outcome, "no server block has a zone for the name"
    if cluster is not None and made is cluster.visit:
        assert made.reply is not None, "it did not raise"
        qtype = cluster.query.qtype
        cause = cause_of(cluster.block, qtype, made.reply, cluster.found, service, cluster.owners)
        is_alias = service is not None and service.kind == "ExternalName"
        is_port = cluster.parsed is not None and bool(cluster.parsed.port)
        if cluster.cause is not None and (outcome == "resolves" or is_alias or is_port):
            leads_nowhere = outcome == "resolves"
            return "leads nowhere" if leads_nowhere else outcome, cluster.cause.sentence
        return outcome, cause
    count = counted(len(reply.answer), "record") if reply.answer else ""
    if made.reply is not None and made.reply.error and not made.is_own:
        return outcome, f"{made.handler.name}: {made.reply.error}"
    if made.told:
        error = f": {made.reply.error}" if made.reply is not None and made.reply.error else ""
        return outcome, f"{made.handler.name} {made.told}{error}{count and f'; {count}'}"
    name = f"plugin {made.handler.name}"
    return outcome, f"{count} from {name}" if count else f"{name} answers so"


def _with_rules(
    rules: Sequence[tuple[Rule, bool]], outcome: Outcome, cause: str, todo: str
) -> tuple[Outcome, str, str]:
    """The explanation of the answer without rules of `fault`, with them as the cause."""
    causes = [rule.cause(hits=hits) for rule, hits in rules]
    for rule, hits in rules:
        if rule.action.takes_answer and outcome != "does not resolve":
            outcome = "does not resolve" if hits else "could not tell"
    cause = f"{'; '.join(each.sentence for each in causes)}; without that {cause}"
    return outcome, cause, "; ".join(filter(None, (*(each.todo for each in causes), todo)))


def _has_records(visits: Sequence[Visit], reply: Reply) -> bool:
    """Whether the reply has records of the type that was asked for; an alias alone is none."""
    types = {each.request.query.qtype for each in visits[:1]}
    is_any = not types or RRType.ANY in types
    return not reply.rcode and any(is_any or each.rrtype in types for each in reply.answer)


def _is_unanswered(visits: Sequence[Visit], reply: Reply) -> bool:
    """Whether the last plugin has passed the query on to none."""
    below = visits[-1].below if visits else None
    return below is not None and not below.written and bool(reply.rcode)


def _unanswered(visits: Sequence[Visit]) -> str:
    """Why no plugin has answered."""
    last = visits[-1]
    assert last.passed is not None, "it has a reply of the chain's end"
    name, zone = (each.to_text() for each in (last.passed.query.qname, last.request.zone))
    if any(each.handler.name == "autopath" and each.passed is not None for each in visits):
        return f"autopath looks up the bare name {name}, and no plugin of block {zone} answers it; {ADD_FORWARD}"
    return f"no plugin after {last.handler.name} answers {name}"


def _of_pod(query: Query) -> Lead:
    """The lead to a pod, or to those of a workload, that a name begins with."""
    return Lead(pod=text(query.qname.labels[0]) if query.qname.labels else "")


def _with_what_is_behind(block: Kubernetes, near: Nearest) -> str:
    """What is said of near names, and whether nothing is behind the first one."""
    name, shown = Name.from_text(near.names[0].name), near.shown
    zone = name.longest_of(block.zones)
    behind = block.answers.lookup.nothing_behind(name, zone) if zone is not None else ""
    if behind and not block.store.services.endpoint_ips.addresses():
        return shown  # files may have Services only
    if not behind or near.names[0].name.removesuffix(".") not in shown:
        return shown
    return (
        f"{shown[:-1]}, which has {behind}?"
        if shown.endswith("?")
        else f"{shown}, but has {behind}"
    )


def _is_of_port(near: Nearest) -> bool:
    """Whether the name that is meant has the port of this one, or its protocol, in another way."""
    ways = ("protocol and port", "the protocol of port", "the protocol is", "the name of a port")
    return near.why.startswith(ways)


def _of_family(service: ServiceReport, qtype: int) -> str:
    """What to do for a name to have addresses of a family."""
    if qtype not in ADDRESSES or service.kind == "ExternalName":
        return ""
    family = "IPv4" if qtype == RRType.A else "IPv6"
    place = f"Service {service.namespace}/{service.name}"
    if service.kind == "headless":
        return (
            f"add {family} to ipFamilies of {place}, or an EndpointSlice with addressType: {family}"
        )
    return (
        f"set ipFamilyPolicy: PreferDualStack in the spec of {place}, if the cluster has {family}"
    )


def _with_names(
    near: Nearest, cause: str, needed: Sequence[Change], whom: str, *, replaces: bool
) -> tuple[str, str]:
    """The first line with the names that exist, and what to do; `whom` would be asked for this one.

    A name that is meant otherwise `replaces` that there is no object of that name.
    """
    is_absent = all(each.cause.startswith("there is no ") for each in needed) or _is_of_port(near)
    if near.why and is_absent and replaces and (near.is_sure or not cause):
        return f"{near.hint}{f'; this name goes to {whom}' if whom else ''}", near.todo
    is_of_pod = bool(needed) and needed[0].place.startswith("Pod ")
    shown = near.shown if is_of_pod or not near.is_sure else near.hint
    is_named = is_absent or near.shown.startswith("its name is")
    return "; ".join(filter(None, (cause, shown))), near.todo if is_named else ""


class _Cluster:
    """A question as a kubernetes block got it, the parts of its name, and the objects that they lead to.

    `problems` are errors of reading them.
    """

    seen: Seen
    scene: Scene
    view: View | None = None  # read if nothing stands behind the name
    cause: Cause | None = None
    found: tuple[Node, ParsedName] | bytes | None = None

    def __init__(self, visit: Visit, problems: Sequence[str]) -> None:
        assert isinstance(visit.handler, Kubernetes), "as cluster_visit() has looked"
        self.visit, self.block, self.query = visit, visit.handler, visit.request.query
        zone = self.query.qname.longest_of(self.block.zones)
        assert zone is not None, "visited"
        self.replay = Replay(self.block, zone)
        lookup = self.block.answers.lookup
        self.parsed = lookup.parse(self.query.qname, zone)
        self._is_shared = lookup.is_multicluster(zone)
        self._is_reverse = is_reverse(self.query.qname)
        self._address = address_of(self.query.qname) if self._is_reverse else None
        self._problems = problems

    @classmethod
    async def read(
        cls, visit: Visit, seeing: Mapping[int, LiveObjects], problems: Sequence[str], pause: Pause
    ) -> _Cluster:
        """A question with its objects."""
        made = cls(visit, problems)
        pod = _of_pod(made.query).pod if made.is_missing else ""
        made.seen = await seeing[id(made.block)].see(made.lead._replace(pod=pod))
        await pause()
        objects: Iterable[Object] = ()
        if made._address is not None:
            objects = made.seen.objects.of_address(made._address)
        elif made.parsed is not None:
            objects = made.seen.objects.of_name(made.parsed, shared=made._is_shared)
        made.scene = Scene.of(objects)
        with suppress(NoSuchName):
            lookup = made.block.answers.lookup
            made.found = lookup.find(made.query.qname, made.replay.zone, None)
        await pause()
        return made

    @property
    def lead(self) -> Lead:
        """The lead from the question to its objects."""
        parsed = self.parsed
        if self._address is not None:
            return Lead(address=address_to_text(self._address))
        if parsed is None or not parsed.namespace:
            return Lead()
        lead = Lead((parsed.namespace,))
        if parsed.kind == POD:
            pod = address_in(parsed.name)
            return lead._replace(address=address_to_text(pod)) if pod is not None else lead
        keys = ((parsed.namespace, parsed.name),) if parsed.name else ()
        return lead._replace(services=keys, shared=self._is_shared)

    @property
    def is_missing(self) -> bool:
        """Whether the cluster does not have the name."""
        return self._lacks(self.query.qtype)

    def _lacks(self, qtype: int) -> bool:
        return self.block.answers.is_missing(self.query.qname, qtype, self.replay.zone)

    @property
    def left_out(self) -> str:
        """The namespace of the name, if the block reads others only, whatever may be read of it."""
        chosen, parsed = self.block.options["namespaces"], self.parsed
        namespace = text(parsed.namespace) if chosen and parsed else ""
        return "" if namespace in map(str.lower, chosen) else namespace

    @property
    def blind(self) -> list[str]:
        """What could not be read."""
        if not self.block.store.serves:
            reasons = [each.removeprefix("plugin/kubernetes: ") for each in self._problems]
            return [*reasons, self.block.unread()]
        found = [*self.seen.remarks, *self.seen.behind, *self.seen.refused]
        is_unmatched = self.cause is not None and self.cause.code == "HS101"
        if is_unmatched and self.view is not None and self.view.is_live:
            # What the selector means may be a workload that was not read.
            found += list(self.view.unknown.values())[:1]
        if remark := self.block.remark():
            found.insert(0, f"{remark}; a snapshot has no endpoint that was not ready")
        return found

    @property
    def history(self) -> list[ChangeReport]:
        """The last changes of the name."""
        if self.parsed is None:
            return []
        return past(self.block.store.services.history, self.lead, self.parsed.endpoint)

    async def needed(self, pause: Pause) -> tuple[Change, ...]:
        """The smallest set of changes with which the name exists."""
        options: Iterable[Change | None] = ()
        if self._is_reverse:
            options = of_address(self._address or b"", self.scene, self.seen.objects)
        elif self.left_out and self.seen.is_partial:
            return ()
        elif self.parsed is not None and self.parsed.name:
            options = Candidates(
                self.parsed, self.scene, self.seen.objects, self.replay, self.cause
            )
        qname, qtype = self.query.qname, self.query.qtype
        return await smallest(self.replay, self.scene, options, qname, qtype, pause)

    async def service(self, pause: Pause) -> ServiceReport | None:
        """The Service or ServiceImport that the name leads to."""
        parsed, visit, owners = self.parsed, self.visit, self.scene.imports or self.scene.services
        if parsed is None or not parsed.name or parsed.kind == POD:
            return None
        if self._is_reverse or not owners:
            return None
        own = visit.reply.answer if visit.reply is not None and visit.passed is None else ()
        asked = self.query.qname, self.query.qtype
        pods = {each.metadata.name: each for each in self._pods()}
        fates = Fates(self.replay, self.scene, pods, parsed, asked, own)
        return await fates.report(owners[0], pause)

    def _pods(self) -> Iterable[PodManifest]:
        """The pods of the namespace that are known."""
        assert self.parsed is not None, "the name has a Service"
        if self.view is not None:
            return self.view.pods(text(self.parsed.namespace))
        return map(manifest_of, self.seen.objects.pods(self.parsed.namespace))

    async def trace(self, live: LiveObjects) -> None:
        """Find why nothing stands behind the name, with what its source has of pods and workloads."""
        parsed, services = self.parsed, self.scene.services
        if parsed is None or not parsed.name or parsed.kind == POD:
            return
        # Clients choose names: only a namespace that exists is read for one without a Service.
        is_below = bool(parsed.endpoint and self.scene.namespaces)
        if self._is_reverse or self._is_shared or not (services or is_below):
            return
        owner, port = services[0] if services else None, None
        if owner is not None and parsed.port:
            named = (each for each in owner.spec.ports or () if each.name == text(parsed.port))
            port = next(named, None)
            if port is None:
                return  # it is the Service that lacks the port
        is_led = owner is not None and leads_somewhere(owner, self.scene.slices, port)
        if not self.is_missing and (parsed.endpoint or is_led):
            return
        namespace, name = text(parsed.namespace), text(parsed.name)
        selector = owner.spec.selector if owner is not None else None
        self.view = view = await live.view(self.seen, namespace, selector or {})
        view.domain = self.replay.zone.to_text().removesuffix(".")
        if parsed.endpoint:
            self.cause = cause_of_pod(view, namespace, name, text(parsed.endpoint))
        elif owner is not None:
            self.cause = cause_behind(view, owner, port) or await self._of_target(owner, live)

    async def _of_target(self, alias: Service, live: LiveObjects, depth: int = 0) -> Cause | None:
        """Why the target of an ExternalName Service leads nowhere, if it is a name of this cluster."""
        domain = self.replay.zone.to_text().removesuffix(".")
        known = {(text(one), text(other)) for one, other in [*self.block.store.services.values]}
        cause = cause_of_missing(alias, known, domain)
        key = service_of(alias.spec.external_name or "", domain)
        if cause is not None or key is None or depth >= MOST_ALIASES:
            return cause
        place = key[0].encode(), key[1].encode()
        seen = await live.see(Lead((place[0],), services=(place,)))
        for service in seen.objects:
            if isinstance(service, Service) and service.key == key:
                view = await live.view(seen, key[0], service.spec.selector or {})
                view.domain = domain
                found = cause_behind(view, service)
                return through(alias, found or await self._of_target(service, live, depth + 1))
        return None

    def todo(self, needed: Sequence[Change]) -> str:
        """What to do for the name to lead to something."""
        if not needed:
            return self.cause.todo if self.cause is not None else ""
        every = (each.todo or to_be_done(each.needed, each.place) for each in needed)
        return "; ".join(dict.fromkeys(every))

    def lacks(self, needed: Sequence[Change]) -> str:
        """Explain why the cluster does not have the name."""
        qname, qtype, parsed = self.query.qname, self.query.qtype, self.parsed
        if self.seen.behind and self.replay.exists(self.scene, qname, qtype):
            return f"{self.seen.behind[0]}; with that the name exists"
        if self.seen.refused:
            return self.seen.refused[0]
        if self.left_out and self.seen.is_partial:
            return f"`namespaces` of the kubernetes block leaves out {self.left_out}"
        if needed:
            return "; and ".join(dict.fromkeys(each.cause for each in needed))
        if self._is_reverse:
            if self._address is None:
                return "the zone has names of whole addresses only, and this is not one"
            return "no Service has the address as its cluster IP, and no ready endpoint has it"
        if parsed is not None and parsed.kind == POD and parsed.name:
            return f'"{text(parsed.name)}" is not an address such as 10-0-0-1, as names of the pod zone are'
        if not self._lacks(RRType.A):
            rrtype = type_to_text(qtype)
            return f"the name has an A record; like CoreDNS, hsdns denies it for {rrtype}"
        if parsed is None:
            zone = self.replay.zone.to_text()
            return f"no name in zone {zone} has this form; a Service is NAME.NAMESPACE.svc.{zone}"
        if not parsed.name:
            return f"there is no namespace {text(parsed.namespace)}"
        return f"no object of the cluster has the name {qname.to_text()}"

    @property
    def owners(self) -> str:
        """The objects that have the address of a reverse name."""
        address = self._address
        if address is None:
            return ""
        for service in self.scene.services:
            texts = [*(service.spec.cluster_ips or ()), service.spec.cluster_ip or ""]
            if any(pack_address(each) == address for each in texts):
                return f"the cluster IP of Service {service.metadata.namespace}/{service.metadata.name}"  # fmt: skip
        places = [f"{each.metadata.namespace}/{each.metadata.name}" for each in self.scene.slices]
        return f"an endpoint in EndpointSlice {', '.join(places)}"

    @property
    def reading(self) -> dict[str, str]:
        """The parts of the name by their meaning."""
        parsed = self.parsed
        if parsed is None:
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
