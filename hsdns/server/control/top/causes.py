"""Why a name fails, in one sentence.

Path: picture.py -> here -> the store of the kubernetes block, explanation/nearest.py.
Rule 1: a cause is found once for each state of the cluster and each configuration.
Rule 2: only what can be seen without asking the chain is told: a plugin of it might ask other servers, log or count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from hsdns.assemble import AssembledBlock
from hsdns.cluster.question import POD, ParsedName
from hsdns.cluster.value import HEADLESS
from hsdns.explanation.edits import text
from hsdns.explanation.nearest import nearest
from hsdns.plugins.forward import Forward
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.door import Door, kubernetes_blocks
from hsdns.server.control.top.failing import FailingName
from hsdns.server.instance import Instance
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name

MOST: Final = 100  # that are remembered
Pause = Callable[[], Awaitable[None]]


class Causes:
    """Finds causes, for one reader."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._state: tuple[int, ...] = ()
        self._known: dict[tuple[bytes, str, str], str] = {}

    async def of(self, failing: FailingName, pause: Pause) -> str:
        """Why a name fails."""
        instance = self._door.serving()
        state = id(instance), *(each.store.changes for each in kubernetes_blocks(instance))
        if state != self._state or len(self._known) >= MOST:
            self._state, self._known = state, {}
        key = failing.name.lower, failing.type, failing.rcode
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = await _find(instance, failing, pause)
        return found


async def _find(instance: Instance, failing: FailingName, pause: Pause) -> str:
    name = failing.name
    blocks = [
        (zone, block)
        for listener in instance.configuration.listeners
        for zone, served in listener.served.items()
        if name.is_at_or_below(zone)
        for block in served
    ]
    if not blocks:
        return "no server block has a zone for the name"
    longest = max(len(zone.labels) for zone, _ in blocks)
    block = next(block for zone, block in blocks if len(zone.labels) == longest)
    for plugin in block.plugins:
        if isinstance(plugin, Kubernetes) and name.longest_of(plugin.zones) is not None:
            sentence = await _in_cluster(plugin, failing, pause)
            if sentence:
                return sentence
    return _of_chain(block, failing)


def _of_chain(block: AssembledBlock, failing: FailingName) -> str:
    """What the plugins say that answer for names outside of the cluster."""
    key = block.keys[0].token.text
    for plugin in block.plugins:
        if not isinstance(plugin, Forward):
            continue
        for route in plugin.routes:
            if route.matches(failing.name):
                servers = ", ".join(map(str, route.upstreams))
                if failing.rcode == "SERVFAIL" and any(each.failed for each in route.upstreams):
                    return f"forwarded to {servers}, which has not replied to every query"
                return f"forwarded to {servers}, which answered {failing.rcode}"
    names = ", ".join(each.name for each in block.handlers)
    return f"{failing.rcode} is from a plugin of server block {key}: {names}"


async def _in_cluster(block: Kubernetes, failing: FailingName, pause: Pause) -> str:
    """What the cluster lacks; empty if it has the name."""
    name, store = failing.name, block.store
    zone = name.longest_of(block.zones)
    assert zone is not None, "checked by the caller"
    if not store.serves:
        return f"the cluster has not been read yet from {block.source}"
    qtype = type_from_text(failing.type)
    if not block.answers.is_missing(name, qtype, zone):
        return ""
    sentence = _lacks(block, name, zone)
    near = await nearest(block, name, qtype, pause)
    if near:
        sentence += f"; {near[0].name} exists ({near[0].why})"
    if remark := block.remark():
        return f"{remark}; there {sentence}"
    return sentence


def _lacks(block: Kubernetes, name: Name, zone: Name) -> str:
    lookup = block.answers.lookup
    parsed = lookup.parse(name, zone)
    if parsed is None:
        return f"no name of zone {zone.to_text()} has this form"
    if not lookup.is_exposed(parsed.namespace, None):
        if parsed.namespace in block.store.namespaces:
            return f"the option namespaces leaves out {text(parsed.namespace)}"
        return f"there is no namespace {text(parsed.namespace)}"
    if parsed.kind == POD:
        return f'no pod of namespace {text(parsed.namespace)} has the address "{text(parsed.name)}"'
    return _of_service(block, parsed, zone)


def _of_service(block: Kubernetes, parsed: ParsedName, zone: Name) -> str:
    lookup = block.answers.lookup
    service = f"Service {text(parsed.namespace)}/{text(parsed.name)}"
    value = lookup.values(zone).get((parsed.namespace, parsed.name))
    if value is None:
        return f"there is no {service}"
    if lookup.hides(value):
        return f"ignore empty_service hides {service}, which has no ready endpoint"
    if not value.has_endpoints and value.kind == HEADLESS:
        return f"{service} is headless and has no ready endpoint"
    if parsed.endpoint:
        return f'no ready endpoint of {service} has the name "{text(parsed.endpoint)}"'
    if parsed.port:
        port = f'"{text(parsed.port)}" and protocol "{text(parsed.protocol)}"'
        return f"{service} has no port with the name {port}"
    return f"{service} has no such name"
