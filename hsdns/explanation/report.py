"""What an explanation says, as data: `hsdns explain -o json` writes it, docs/explain.schema.json describes it.

Path: explain.py makes it, text.py and cli/explain.py write it.
Rule: fields are only added while VERSION stays; a field that does not apply is empty, not absent.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

VERSION: Final = 1
Outcome = Literal["resolves", "does not resolve", "could not tell"]
Fate = Literal["answered", "left out", "not asked for"]


class PluginStep(msgspec.Struct, frozen=True):
    """What one plugin of the server block did with the query."""

    plugin: str
    did: str


class EndpointReport(msgspec.Struct, frozen=True):
    """One endpoint of an EndpointSlice; `why` says why it is left out, or what is odd about one that is answered."""

    addresses: list[str]
    fate: Fate
    why: str
    hostname: str
    pod: str


class SliceReport(msgspec.Struct, frozen=True, rename="camel"):
    """One EndpointSlice; `ports` as NAME/PROTOCOL/NUMBER."""

    name: str
    resource_version: str
    address_type: str
    ports: list[str]
    endpoints: list[EndpointReport]


class ServiceReport(msgspec.Struct, frozen=True, rename="camel"):
    """The Service that the name leads to; `kind` is headless, ClusterIP or ExternalName."""

    namespace: str
    name: str
    kind: str
    resource_version: str
    cluster_ips: list[str]
    ports: list[str]
    selector: dict[str, str]
    external_name: str
    publish_not_ready_addresses: bool
    slices: list[SliceReport]


class RecordReport(msgspec.Struct, frozen=True):
    """One record of the answer, and the rule behind each of its fields."""

    owner: str
    ttl: int
    type: str
    rdata: str
    rules: list[str]


class NeededChange(msgspec.Struct, frozen=True):
    """Something that would have to be true for the name to exist; `place` is an object or the Corefile."""

    place: str
    cause: str
    needed: str


class NearName(msgspec.Struct, frozen=True):
    """A name that exists, and how it differs from the one that was asked."""

    name: str
    why: str


class ChangeReport(msgspec.Struct, frozen=True, rename="camel"):
    """A change that a server has served; `event` is added, changed or deleted, `written` is the time of the change.

    `added` and `removed` are addresses with the labels of endpoints, ports and CNAMEs.  `took` is in milliseconds from
    `written` to `served`, null where no time was written; the clocks of two machines are compared.
    """

    served: str
    event: str
    object: str
    resource_version: str
    added: list[str]
    removed: list[str]
    written: str
    took: float | None


class ServerReport(msgspec.Struct, frozen=True):
    """What a server that was asked too answers, and where that differs from what the objects say."""

    address: str
    rcode: str
    records: list[str]
    differences: list[str]


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Why a question has the answer that it has.

    `cause` is the first line; `blind` says what could not be seen.  `needed` is the smallest set of changes that make a
    missing name exist, empty where no change does.  `reading` has the parts of the name by what they stand for.
    `history` has the last changes behind the name, the newest first; only a server that runs remembers any.  `asked` is
    the server of `-server`.  `table` says whether the answer table stores the reply; empty without a server.
    """

    version: int
    name: str
    type: str
    outcome: Outcome
    rcode: str
    cause: str
    blind: list[str]
    server_block: str
    block_reason: str
    plugins: list[PluginStep]
    reading: dict[str, str]
    service: ServiceReport | None
    records: list[RecordReport]
    needed: list[NeededChange]
    nearest: list[NearName]
    history: list[ChangeReport] = []
    asked: ServerReport | None = None
    table: str = ""


def schema() -> dict[str, Any]:
    """The JSON Schema of an explanation."""
    return msgspec.json.schema(Explanation)
