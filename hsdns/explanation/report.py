"""What an explanation says, as data: `hsdns explain -o json` writes it, docs/explain.schema.json describes it.

Path: explain.py makes it, text.py and cli/explain.py write it.
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


class AskerReport(msgspec.Struct, frozen=True, rename="camel"):
    """Who asked, and the whole lookup of each resolver.

    `decisive` is the query that the rest of the explanation is about, `cause` says what in the asker keeps the name
    from resolving, and is empty where nothing does.  `remarks` say what was taken from where, and what was not seen.
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
    """What a server that was asked too answers, and where that differs from what the objects say."""

    address: str
    rcode: str
    records: list[str]
    differences: list[str]


class TableState(msgspec.Struct, frozen=True, rename="camel"):
    """What the answer table of a server has now: `forms` are the kinds of queries that it would answer.

    `isDenial` says that it answers them as it does for all names of the zone that do not exist.  `age` and `left` are
    those of a reply of `cache` in seconds, null for other replies, which have no time: they stay until an event.
    """

    forms: list[str]
    is_denial: bool
    age: float | None
    left: float | None


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Why a question has the answer that it has.

    `cause` is the first line; `blind` says what could not be seen.  `needed` is the smallest set of changes that make a
    missing name exist, empty where no change does.  `reading` has the parts of the name by what they stand for.
    `history` has the last changes behind the name, the newest first; only a server that runs remembers any.  `asked` is
    the server of `-server`.  `table` says whether the answer table stores the reply and has it now; empty without
    a server.  `inTable` is what it has now, null without a server.
    `keepSeconds` is how long a cache elsewhere may go on with the reply after it has changed here.
    `asker` is there where a lookup of a program was explained; `name` is then what the program looked up.
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
