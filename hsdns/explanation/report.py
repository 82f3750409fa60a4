"""The content of an explanation as data: `hsdns explain -o json` writes it, docs/explain.schema.json describes it.

Path: explain.py creates it, text.py and cli/explain.py write it.
Rule: fields are only added while VERSION stays; a field that does not apply is empty, not absent.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from hsdns.resolver.report import LookupReport

VERSION: Final = 1
Outcome = Literal["resolves", "does not resolve", "could not tell"]
Fate = Literal["answered", "left out", "not asked for"]


class PluginStep(msgspec.Struct, frozen=True):
    """What one plugin of the server block did with the query."""

    plugin: str
    did: str


class EndpointReport(msgspec.Struct, frozen=True):
    """One endpoint of an EndpointSlice; `why` says why it is left out, or why an answered one is suspicious."""

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
    """The `object` that the name leads to, a Service or ServiceImport; `kind` is headless, or its type."""

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
    object: str = "Service"


class RecordReport(msgspec.Struct, frozen=True):
    """One record of the answer, and the origin of each of its fields."""

    owner: str
    ttl: int
    type: str
    rdata: str
    rules: list[str]


class NeededChange(msgspec.Struct, frozen=True):
    """A condition for the name to exist; `place` is an object or the Corefile."""

    place: str
    cause: str
    needed: str


class NearName(msgspec.Struct, frozen=True):
    """An existing name, and how it differs from the queried one."""

    name: str
    why: str


class AskerReport(msgspec.Struct, frozen=True, rename="camel"):
    """The client, and the whole lookup of each resolver.

    `decisive` is the query that the rest of the explanation is about.  `cause` is the setting of the client that makes
    the lookup fail, "" if there is none.  `remarks` name the origins of the settings, and facts that were not seen.
    """

    pod: str
    dns_policy: str
    types: list[str]
    resolv_conf: str
    decisive: str
    cause: str
    lookups: list[LookupReport]
    remarks: list[str] = []


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
    """The answer of another server, and its differences from the objects."""

    address: str
    rcode: str
    records: list[str]
    differences: list[str]


class TableState(msgspec.Struct, frozen=True, rename="camel"):
    """The entries of a server's answer table now: `forms` are the kinds of queries that it would answer.

    `isDenial` says that it answers them from the template for nonexistent names of the zone.  `age` and `left` are the
    age and the remaining time of a reply of `cache` in seconds, null for other replies, which are valid until an event.
    """

    forms: list[str]
    is_denial: bool
    age: float | None
    left: float | None


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of an answer.

    `cause` is the first line; `blind` says what could not be read.  `needed` is the smallest set of changes with which
    a missing name exists, empty if there is none.  `reading` has the parts of the name by their meaning.  `history` has
    the last changes of the name, the newest first; only a running server has any.  `asked` is the server of `-server`.
    `table` says whether the answer table stores the reply and has it now; empty without a server.  `inTable` has its
    entries now, null without a server.  `keepSeconds` is how long other caches may still send the reply after a change.
    `asker` is set if a program's lookup was explained; `name` is then the name that the program looked up.
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
    keep_seconds: int = 0
    asker: AskerReport | None = None
    in_table: TableState | None = None


def schema() -> dict[str, Any]:
    """The JSON Schema of an explanation."""
    return msgspec.json.schema(Explanation)
