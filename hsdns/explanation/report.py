"""The content of an explanation as data: `hsdns explain -o json` writes it, docs/explain.schema.json describes it.

Path: explain.py creates it, text.py and explanation/cli.py write it.
Rule: fields are only added while VERSION stays; a field that does not apply is empty, not absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from hsdns.resolver.report import LookupReport
from hsdns.wire import counted

VERSION: Final = 1
# A name leads nowhere if it has an answer, but nothing stands behind it.
Outcome = Literal["resolves", "leads nowhere", "does not resolve", "could not tell"]
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
    `reached` are the nameservers at which this server answers it, null if an older server says nothing of them.
    """

    pod: str
    dns_policy: str
    types: list[str]
    resolv_conf: str
    decisive: str
    cause: str
    lookups: list[LookupReport]
    remarks: list[str] = []
    reached: list[str] | None = None


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


class ServersReport(msgspec.Struct, frozen=True):
    """The DNS servers of the cluster that the explanation is compared with, or why they were not asked."""

    asked: list[ServerReport]
    unasked: str = ""


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

    `cause` is the first line, and `todo` what to do about it, "" if there is nothing to do.  `isIntended` says that
    the objects mean a name to exist, and to lead somewhere, that does not.  `blind` says what could
    not be read.  `needed` is the smallest set of changes with which a missing name exists, empty if there is none.
    `reading` has the parts of the name by their meaning.  `history` has the last changes of the name, the newest first;
    only a running server has any.  `asked` is the server of `--server`.
    `table` says whether the answer table stores the reply and has it now; empty without a server.  `inTable` has its
    entries now, null without a server.  `keepSeconds` is how long other caches may still send the reply after a change.
    `asker` is set if a program's lookup was explained; `name` is then the name that the program looked up.
    `servers` are those of a cluster that a command has read itself, asked for the decisive query.
    `faults` are the rules of `fault` that hit the query, or may; what follows is explained without them.
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
    servers: ServersReport | None = None
    todo: str = ""
    is_intended: bool = False
    faults: list[str] = []

    @property
    def is_answered(self) -> bool:
        """Whether the answer has what is asked for, wherever it leads."""
        return self.outcome in ("resolves", "leads nowhere")


def to_be_done(needed: str, place: str = "") -> str:
    """What to do so that something is as it is needed."""
    return f"edit the Corefile: {needed}" if place == "Corefile" else f"make sure that {needed}"


# Compares another server's answer with the answer from the objects.
#
# Rule 1: records are compared without TTLs and SRV weights, and in any order.
# Rule 2: no difference is reported if the explanation does not know the answer.


DENIALS: Final = ("NXDOMAIN", "NOERROR")


class Record(NamedTuple):
    """A record of a reply, as text; `ttl` in seconds."""

    owner: str
    ttl: int
    type: str
    rdata: str


class ServerAnswer(NamedTuple):
    """A reply; `zone` and `negative_ttl` are from the SOA record of a denial.  `error`: why there is no reply."""

    rcode: str = ""
    records: tuple[Record, ...] = ()
    zone: str = ""
    negative_ttl: int = 0
    error: str = ""


def compare(found: Explanation, address: str, answer: ServerAnswer) -> ServerReport:
    """The answer of the server at an address, and its differences from an explanation."""
    shown = [f"{each.owner} {each.ttl} {each.type} {each.rdata}" for each in answer.records]
    if answer.error:
        return ServerReport(address, "", shown, [answer.error])
    differences = [] if found.outcome == "could not tell" else list(_differences(found, answer))
    return ServerReport(address, answer.rcode, shown, differences)


def _differences(found: Explanation, answer: ServerAnswer) -> Iterable[str]:
    if answer.rcode not in DENIALS:
        if answer.rcode != found.rcode:
            yield {
                "REFUSED": "it answers REFUSED: it serves no zone of the name, or not for this client",
                "SERVFAIL": "it answers SERVFAIL: it could not find out, or has not read the cluster yet",
            }.get(answer.rcode, f"it answers {answer.rcode}")
        return
    own, theirs = _by_content(found.records), _by_content(answer.records)
    if own and not theirs:
        yield f"it answers {_denied(answer)}, but the name has {counted(len(own), 'record')}{_from(found, answer)}"
        return
    if not own and not theirs and answer.rcode != found.rcode:
        yield f"it answers {_denied(answer)}, not {found.rcode}{_from(found, answer)}"
    for content, record in theirs.items():
        if content not in own:
            yield f"it still answers {record.rdata}, for {record.ttl} s more, which no object has now"
    for content, missing in own.items():
        if content not in theirs:
            yield f"it does not answer {missing.rdata}"


def _denied(answer: ServerAnswer) -> str:
    kind = answer.rcode if answer.rcode == "NXDOMAIN" else "no records"
    return f"{kind} for {answer.negative_ttl} s more" if answer.zone else kind


def _from(found: Explanation, answer: ServerAnswer) -> str:
    """The zone of a denial, if it is another one."""
    zone = found.reading.get("zone", "")
    if answer.zone and zone and answer.zone.lower() != zone.lower():
        return f"; its SOA record is of {answer.zone}, so it queried another zone than {zone}"
    return "; it may have stored that before the name existed" if answer.zone else ""


def _by_content(
    records: Sequence[RecordReport | Record],
) -> dict[tuple[str, str], RecordReport | Record]:
    """The records by type and RDATA, of SRV without priority and weight."""
    return {
        (each.type, " ".join(each.rdata.lower().split()[2 * (each.type == "SRV") :])): each
        for each in records
    }
