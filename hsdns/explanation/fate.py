"""Finds for each endpoint whether it is in the answer, and if not, why.

Path: explain.py -> here -> report.py.
Rule: the query is repeated over a scene with only this endpoint.  If the answer does not have it, the changes that
      would put it into the answer are the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import structs

from hsdns.causes.pod import why_unready
from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.objects import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Service,
    ServiceImport,
    ServicePort,
    ServiceSpec,
)
from hsdns.cluster.schema import ParsedName
from hsdns.explanation.observed import Pause
from hsdns.explanation.report import EndpointReport, Fate, ServiceReport, SliceReport
from hsdns.explanation.scene import Replay, Scene, Trial
from hsdns.sources.manifests import text
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name

_OTHER: Final = {RRType.A: RRType.AAAA, RRType.AAAA: RRType.A}


class Fates:
    """Examines a Service's endpoints for one question; `pods` are by name, `answered` are the records of the answer."""

    def __init__(
        self,
        replay: Replay,
        scene: Scene,
        pods: Mapping[str, PodManifest],
        parsed: ParsedName,
        question: tuple[Name, int],
        answered: Sequence[RR],
    ) -> None:
        self._replay, self._scene, self._parsed = replay, scene, parsed
        self._qname, self._qtype = question
        self._pods = pods
        self._answered = {_content(each) for each in answered}
        self._seen: dict[tuple[int, bytes], str] = {}

    async def report(self, found: Service | ServiceImport, pause: Pause) -> ServiceReport:
        """A Service or ServiceImport with its slices and their endpoints; `pause` is awaited in between."""
        meta, spec = found.metadata, found.spec
        service = found.spec if isinstance(found, Service) else ServiceSpec()
        if isinstance(found, Service):
            ips = service.cluster_ips or ([service.cluster_ip] if service.cluster_ip else [])
            kind = "headless" if found.is_headless else service.type or "ClusterIP"
        else:
            ips = found.spec.ips or []
            kind = "headless" if spec.type == "Headless" else "ClusterSetIP"
        return ServiceReport(
            meta.namespace,
            meta.name,
            kind,
            meta.resource_version,
            [] if kind == "headless" else list(ips),
            _ports(spec.ports or ()),
            dict(service.selector or {}),
            service.external_name or "",
            bool(service.publish_not_ready_addresses),
            await self._slices(pause),
            type(found).__name__,
        )

    async def _slices(self, pause: Pause) -> list[SliceReport]:
        slices = []
        await pause()
        for part in self._scene.slices:
            endpoints = []
            for each in part.endpoints or ():
                endpoints.append(self._endpoint(part, each))
                await pause()
            meta, ports = part.metadata, _ports(part.ports or ())
            slices.append(
                SliceReport(meta.name, meta.resource_version, part.address_type, ports, endpoints)
            )
        return slices

    def _endpoint(self, part: EndpointSlice, endpoint: Endpoint) -> EndpointReport:
        fate, why = self._fate(part, endpoint)
        ref = endpoint.target_ref
        name = (ref.name if ref else "") or ""
        return EndpointReport(
            list(endpoint.addresses or ()), fate, why, endpoint.hostname or "", name
        )

    def _fate(self, part: EndpointSlice, endpoint: Endpoint) -> tuple[Fate, str]:
        own = self._alone(part, endpoint)
        if own and not self._uses_endpoints:
            return "not asked for", "the cluster IP is answered"
        found = [each for each in own if each in self._answered]
        if found:
            new = [each for each in found if each not in self._seen]
            if not new:
                return "left out", f"duplicate of an endpoint in {self._seen[found[0]]}"
            self._seen.update((each, part.metadata.name) for each in new)
            return "answered", self._notable(endpoint)
        if own:  # the server answered from other objects
            return "left out", "the server has not seen it yet"
        return "left out", self._lack(part, endpoint)

    @cached_property
    def _uses_endpoints(self) -> bool:
        """Whether the name's records come from endpoints: without endpoints, the answer is different."""
        # `ignore empty_service` hides a Service without endpoints, whatever its records are.
        shown = self._without_slices.with_options(ignore=False)
        bare = self._replay.records(shown, self._qname, self._qtype)
        return {_content(each) for each in bare} != self._answered or not bare

    @cached_property
    def _without_slices(self) -> Scene:
        objects = self._scene.objects.items()
        rest = {key: each for key, each in objects if not isinstance(each, EndpointSlice)}
        return self._scene._replace(objects=rest)

    @cached_property
    def _trial(self) -> Trial:
        return self._replay.trial(self._without_slices)

    def _alone(
        self,
        part: EndpointSlice,
        endpoint: Endpoint,
        qname: Name | None = None,
        qtype: int | None = None,
    ) -> list[tuple[int, bytes]]:
        """The answer if this were the only endpoint."""
        alone = structs.replace(part, endpoints=[endpoint])
        records = self._trial.records_with(alone, qname or self._qname, qtype or self._qtype)
        return [_content(each) for each in records]

    def _notable(self, endpoint: Endpoint) -> str:
        conditions = endpoint.conditions
        if conditions is None:
            return ""
        because = ", answered because publishNotReadyAddresses is true" if self._publishes else ""
        if conditions.serving is False:
            why = why_unready(endpoint, self._pods)
            return f"not serving{f' ({why})' if why else ''}{because}"
        return f"terminating{because}" if conditions.terminating else ""

    @cached_property
    def _publishes(self) -> bool:
        services = self._scene.services
        return bool(services and services[0].spec.publish_not_ready_addresses)

    def _lack(self, part: EndpointSlice, endpoint: Endpoint) -> str:
        """The first changes that would put the endpoint into the answer."""
        ready = structs.replace(endpoint, conditions=EndpointConditions(ready=True))
        conditions = endpoint.conditions
        if conditions is not None and conditions.ready is False:
            why = why_unready(endpoint, self._pods)
            return f"not ready{f': {why}' if why else ''}"
        other = _OTHER.get(self._qtype)
        if other is not None and self._alone(part, ready, qtype=other):
            return f"its address is IPv{4 if other == RRType.A else 6}"
        parsed = self._parsed
        if parsed.endpoint:
            name = "its name is another one" if endpoint.hostname else "no hostname"
            named = structs.replace(ready, hostname=text(parsed.endpoint))
            if self._alone(part, named) or (other and self._alone(part, named, qtype=other)):
                return name
        plain = Name.from_labels(self._qname.labels[2:])
        if (parsed.port or parsed.protocol) and self._alone(part, ready, plain):
            return f"its ports are {', '.join(_ports(part.ports or ())) or 'none'}"
        if parsed.topology_zone:
            return f"its topology zone is {endpoint.zone or 'not known'}"
        return "it has no record of this type"


def _content(record: RR) -> tuple[int, bytes]:
    """The parts that identify a record: not the weight, which depends on the number of all records."""
    return record.rrtype, record.rdata[4:] if record.rrtype == RRType.SRV else record.rdata


def _ports(ports: Sequence[ServicePort | EndpointPort]) -> list[str]:
    return [
        f"{each.name or '(unnamed)'}/{each.protocol or 'TCP'}/{each.port if each.port is not None else 'any'}"
        for each in ports
    ]
