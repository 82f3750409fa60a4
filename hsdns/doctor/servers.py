"""Queries the DNS servers of a cluster one by one for the names of its objects; the answers are an object of the dump.

Path: doctor/cli.py -> here -> load/cli/cluster.py (right answers), ask/question.py (sends queries) ->
rules/checks/dns.py.
Rule 1: the cluster is watched at the same time, as configured in the servers' Corefile.  The query of a wrong answer is
        repeated for a second, because a change takes a moment to reach a server.
Rule 2: a silent pod counts only if another pod was reached: otherwise pods are unreachable from here, which is not
        their fault.  The same applies to the cluster IP.  Servers given by flags always count.
Rule 3: an answer of a pod or of the cluster IP counts only if it is known to be of this cluster: outside of it, port 53
        may be intercepted, and another cluster may have the same addresses.  A server is known if it gave an address
        that only this cluster has; one known pod makes all pods known.
Rule 4: an error here does not affect the rest of the report: it is the reason why this was not checked.

The answers of a DNS server, each with the right answer, as an object of a dump.

The questions of `hsdns doctor` to DNS servers: a name that every cluster has, names of its target, and a few others:
Rule 1: all names of a Service are queried, of a Pod those with one of its addresses, up to MOST names.
Rule 2: a Service without records is queried too: that its name has none is an answer.
Rule 3: up to WITNESSES other Services are queried: only a server of this cluster knows their addresses.  Those of the
        API server and of the DNS are the same in many clusters, and so are names in SRV and CNAME records.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.ask.cli import read_servers
from hsdns.ask.names import Word
from hsdns.ask.question import NoReply, ask, ask_all
from hsdns.audit.report import differences
from hsdns.audit.run import replicas
from hsdns.cli.control_path import sockets
from hsdns.cli.offline import CannotTell, config_map_of, configure, connect, reading
from hsdns.cli.running_server import ServerError, find
from hsdns.cli.source import ZONES, cluster_tokens, kubernetes_alone, quoted
from hsdns.cluster.answer_set import AnswerSet, RRset
from hsdns.cluster.controllers.network_policy import KNOWN, PORT
from hsdns.cluster.objects import labels_text
from hsdns.cluster.schema import SVC
from hsdns.cluster.value import Key, ServiceValue
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.mounted import corefiles
from hsdns.corefile.tree import CorefileError, Token
from hsdns.doctor.cli import NotAsked as PodNotAsked
from hsdns.doctor.cli import PodView
from hsdns.explanation.cli import NOT_STARTED
from hsdns.explanation.observed import not_known
from hsdns.load.cli.cluster import LoadCluster
from hsdns.load.errors import LoadError
from hsdns.load.questions import Question, Questions
from hsdns.load.verify.judge import Answer, answer_of
from hsdns.load.verify.message import is_usable
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.recording.entry import SHAPING
from hsdns.rules.corefile_text import CorefileText, zones_of
from hsdns.rules.objects import Objects, mapping_at, mappings_at
from hsdns.server.explaining import name_of
from hsdns.sources.cluster_dump import (
    ANSWERS,
    DNS_SERVER,
    OWN_ANSWERS,
    POD_VIEW,
    Listed,
    list_all,
)
from hsdns.wire.iana import (
    ADDRESSES,
    Rcode,
    RRClass,
    RRType,
    rcode_from_text,
    rcode_to_text,
    type_to_text,
)
from hsdns.wire.message import RR, Query
from hsdns.wire.name import Name

POD: Final = "pod"
SERVICE: Final = "service"
GIVEN: Final = "given"
EACH: Final = 1.0  # seconds for a reply
TRIES: Final = 2  # a datagram may be lost
T = TypeVar("T")
LOOKS: Final = 6  # queries for an answer that is not right
PAUSE: Final = 0.2  # seconds between two of them
METRICS_PORT: Final = 9153  # of a Pod, as in CoreDNS's Deployment
_HITS: Final = re.compile(r'^hsdns_fault_hits_total\{rule="([^"]*)"\} (\S+)', re.MULTILINE)
AT_ONCE: Final = 16  # servers
NEEDED: Final = ("services", "endpointslices", "namespaces")  # to compute right answers
NO_SERVICE: Final = "no Service for DNS is known (kube-system/kube-dns); name servers with --server"
UNREACHED: Final = (
    "no pod of the cluster's DNS can be reached from here, as is usual outside of the cluster; "
    "run it on a node or in a pod, or name servers with --server"
)
UNKNOWN: Final = (
    "no DNS server has answered with an address that only this cluster has, so the answers may be those of something "
    "between, or of another cluster; run it in a pod, or name servers with --server"
)
# What shapes answers, but for pods, whose names are not queried.  Others wrote the rest, for files of another machine.
_KEPT: Final = frozenset({*SHAPING, "labels", "namespace_labels"} - {"pods"})


class DnsServer(NamedTuple):
    """A server to query; `role` is one of the words above, `about` the object of its findings."""

    role: str
    about: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host} port {self.port}"


class NotAsked(Exception):
    """No server was queried; the message is a sentence that says why."""


def given_servers(words: Sequence[str]) -> list[DnsServer]:
    """The servers of --server; raise FlagError."""
    return [DnsServer(GIVEN, "--server", host, port) for host, port in read_servers(words)]


def find_answers(
    objects: Objects,
    unread: Mapping[str, str],
    access: Sequence[str],
    target: str,
    given: Sequence[DnsServer],
    *,
    asks: bool = True,
    view: PodView | None = None,
    runs_code: bool = True,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The answers of the servers, also to the Pod of `view`, and why there are none; see ask_servers().

    `objects` are those of a cluster, `unread` has what could not be read of it.
    """
    needed = NEEDED[: 2 if target else 3]  # a namespace with objects is there
    lacking = next((unread[each] for each in needed if each in unread), "")
    if lacking or not asks:
        return [], {ANSWERS: lacking if asks else "left out by --no-ask"}
    items = list(_dns_objects(objects, target.partition("/")[0]))
    try:
        answers, why = ask_servers(items, access, target, given, view, runs_code=runs_code)
    except NotAsked as error:
        return [], {ANSWERS: str(error)}
    reasons = {POD_VIEW: why} if why else {}
    if not any(each["counts"] for each in answers):
        reasons[ANSWERS] = UNREACHED if answers else NO_SERVICE
    elif not any(each["known"] for each in answers):
        reasons[OWN_ANSWERS] = UNKNOWN
    return answers, reasons


def _dns_objects(objects: Objects, namespace: str) -> Iterator[Mapping[str, Any]]:
    """The objects that say which DNS servers there are, and the Pods of their namespaces and of another one."""
    services = [
        each for each in objects.written("Service") if _is_for_dns({"metadata": each.metadata})
    ]
    spaces = {namespace, *(each.namespace for each in KNOWN)}
    spaces.update(each.namespace for each in services)
    yield from (each.content for each in services)
    yield from (each.content for each in objects.written("ConfigMap"))
    for each in objects.written("Pod"):
        if each.namespace in spaces:
            yield each.content


def ask_servers(
    items: Sequence[Mapping[str, Any]],
    access: Sequence[str],
    target: str,
    given: Sequence[DnsServer],
    view: PodView | None = None,
    sleep: Callable[[float], None] = time.sleep,
    *,
    runs_code: bool = True,
) -> tuple[list[dict[str, Any]], str]:
    """The answers of each server, as objects for the dump, and why there are none from a Pod; raise NotAsked.

    `items` are the objects of the dump, `access` are FILE and CONTEXT of a kubeconfig or empty in a pod, `given`
    servers to query instead, `view` is the Pod.
    """
    servers: list[DnsServer] = list(given)

    def choose(blocks: Sequence[Kubernetes]) -> Questions:
        if not given:
            servers.extend(of_cluster(items, blocks))
        sets = [block.answer_set() for block in blocks]
        addresses = _pod_addresses(items, target)
        asked = doctor_questions(sets[0], target, addresses, _labelled(items))
        return Questions([each for each in asked if not not_known(blocks[0], each.query())])

    namespace = target.partition("/")[0]
    within = (namespace, *(each.namespace for each in KNOWN)) if namespace else ()
    try:
        configuration, _ = configure(
            None, cluster_tokens(access), text=corefile(items), runs_code=runs_code
        )
    except (CorefileError, OSError) as error:
        raise NotAsked(str(error)) from None

    try:
        with LoadCluster(configuration, choose, verifies=True, within=within) as cluster:
            truth, questions = cluster.truth, cluster.questions.all
            assert truth is not None, "it verifies"
            if not questions:
                raise NotAsked("the kubernetes block of the Corefile has reverse zones only")
            if not servers and view is None:
                raise NotAsked(NO_SERVICE)

            def look(server: DnsServer) -> dict[str, Any]:
                return _look(server, questions, truth.latest, sleep)

            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = list(pool.map(look, servers))
            seen, why_not = ([], "") if view is None else _seen(view, questions, truth.latest)
    except (CannotTell, CorefileError, LoadError, OSError) as error:
        raise NotAsked(str(error)) from None
    return judged([*found, *seen]), why_not


def _seen(
    view: PodView, questions: Sequence[Question], expected: Callable[[int], Answer | None]
) -> tuple[list[dict[str, Any]], str]:
    """The answers of the servers to a Pod, or why there are none."""
    before = [expected(number) for number in range(len(questions))]
    try:
        printed = view.ask([word_of(each) for each in questions])
        after = [expected(number) for number in range(len(questions))]
        return seen_from(str(view), printed, questions, before, after), ""
    except PodNotAsked as error:
        return [], str(error)
    except (KeyError, TypeError, ValueError):
        return [], f"the container in {view} runs another version of hsdns ask; see --image"


def judged(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The objects, with `counts`: whether silence counts against the server; one known pod makes all pods known."""
    pods = any(each["role"] == POD and _is_reached(each) for each in found)
    known = any(each["role"] == POD and each["known"] for each in found)
    return [
        {
            **each,
            "counts": each["role"] in (GIVEN, VIEW)
            or pods
            or (each["role"] == SERVICE and _is_reached(each)),
            "known": each["role"] in (GIVEN, VIEW)
            or each["known"]
            or (each["role"] == POD and known),
        }
        for each in found
    ]


def corefile(items: Sequence[Mapping[str, Any]]) -> str:
    """A Corefile that reads the cluster as its own DNS server does; raise CorefileError."""
    zones, lines = ZONES, ""
    maps = [config_map_of(each) for each in items if each.get("kind") == "ConfigMap"]
    for mounted in corefiles(maps):
        placed = next(CorefileText(mounted.source, mounted).directives("kubernetes"), None)
        if placed is None:
            continue
        try:
            found = zones_from_args(placed.directive.args) or zones_of(placed.block)
        except CorefileError:
            continue
        zones = " ".join(quoted(each.to_text()) for each in found)
        for line in placed.directive.lines:
            if line.name.text in _KEPT:
                words = [line.name.text, *(quoted(each.text) for each in line.without_brace.args)]
                lines += f"        {' '.join(words)}\n"
        break
    return kubernetes_alone(zones, lines)


def of_cluster(items: Sequence[Mapping[str, Any]], blocks: Sequence[Kubernetes]) -> list[DnsServer]:
    """The ready endpoints of the Service for DNS, and its cluster IPs."""
    for namespace, name in (*((each.namespace, each.name) for each in KNOWN), *_labelled(items)):
        for block in blocks:
            value = block.store.services.values.get((namespace.encode(), name.encode()))
            if value is None or value.kind is None:
                continue
            service, pods = f"Service {namespace}/{name}", _pods(items, namespace)
            found = [
                DnsServer(POD, pods.get(host, service), host, port)
                for host, port in replicas(value)
            ]
            cluster_ips = (str(ip_address(each)) for each in value.cluster_ips)
            return [*found, *(DnsServer(SERVICE, service, each, PORT) for each in cluster_ips)]
    return []


async def found_servers(
    blocks: Sequence[Kubernetes], access: Sequence[str], *, runs_code: bool
) -> tuple[list[DnsServer], str]:
    """The DNS servers of a cluster that has been read, as far as they answer here, or why none is asked.

    Each has to give an address that only this cluster has, or of pods one: something between may answer.
    """
    if not all(each.store.serves for each in blocks):
        return [], NO_SERVICE
    transport = connect(access, runs_code=runs_code)
    try:
        known = of_cluster(await dns_items(transport), blocks)
    finally:
        await transport.close()
    proofs = [proof for each in blocks for proof in witnesses(each.answer_set())]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        knowing = [asyncio.wrap_future(pool.submit(_knows, each, proofs)) for each in known]
        looked = await asyncio.gather(*knowing)
    reached = [
        (each, knows) for each, knows in zip(known, looked, strict=True) if knows is not None
    ]
    are_pods = any(knows and each.role == POD for each, knows in reached)
    if found := [each for each, knows in reached if knows or (are_pods and each.role == POD)]:
        return found, ""
    return [], UNKNOWN if reached else UNREACHED if known else NO_SERVICE


def servers_and_name(
    objects: tuple[Token, ...], word: Word, *, runs_code: bool
) -> tuple[list[tuple[str, int]], str]:
    """The places of the DNS servers of a cluster, and what a word means in it; raise OperatorError or OSError."""
    configuration, _ = configure(None, objects, runs_code=runs_code)
    access = [each.text for each in objects[1:]]

    async def look() -> tuple[list[DnsServer], str, str]:
        async with reading(configuration, word.namespaces, NOT_STARTED) as (runtime, blocks):
            name = await name_of(runtime, word)
            return *await found_servers(blocks, access, runs_code=runs_code), name

    found, why, name = asyncio.run(look())
    if not found:
        raise CannotTell(why)
    return [(each.host, each.port) for each in found], name


def _knows(server: DnsServer, proofs: Sequence[RRset]) -> bool | None:
    """Whether a server gives addresses that only this cluster has; None if it gives no reply."""
    drawn, found = random.Random(), None
    for rrset in proofs:
        try:
            query = Query.ask(rrset[0].owner, rrset[0].rrtype)
            reply = ask(server.host, server.port, query, EACH, drawn)
        except NoReply:
            return found
        found = {each.rdata for each in reply.answer} == {each.rdata for each in rrset}
        if found:
            break
    return found


async def dns_items(transport: Transport) -> list[dict[str, Any]]:
    """The Services and Pods with the usual labels, as far as they may be listed."""
    found: list[dict[str, Any]] = []
    for each in KNOWN:
        for plural, kind in (("services", "Service"), ("pods", "Pod")):
            listed = Listed(plural, kind, "v1", labels=labels_text(each.labels))
            with suppress(Unreachable):
                items = await list_all(transport, listed, "", "")
                found += [{**item, "kind": kind} for item in items]
    return found


def _labelled(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The Services with the usual label, for distributions that use another name."""
    found = []
    for item in items:
        metadata = mapping_at(item, "metadata")
        if item.get("kind") == "Service" and _is_for_dns(item):
            found.append((str(metadata.get("namespace")), str(metadata.get("name"))))
    return found


def _pods(items: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, str]:
    """The Pods of a namespace by address; of several on the host network, the one for DNS."""
    found = dict[str, str]()
    pods = (each for each in items if each.get("kind") == "Pod")
    for each in sorted(pods, key=_is_for_dns):  # the last one counts
        metadata = mapping_at(each, "metadata")
        if metadata.get("namespace") == namespace:
            path = f"Pod {namespace}/{metadata.get('name')}"
            found.update(dict.fromkeys(_addresses(each), path))
    return found


def _is_for_dns(item: Mapping[str, Any]) -> bool:
    labels = mapping_at(item, "metadata").get("labels")
    return isinstance(labels, dict) and any(each.labels.items() <= labels.items() for each in KNOWN)


def _pod_addresses(items: Sequence[Mapping[str, Any]], target: str) -> list[str]:
    """The addresses of the Pod that is the target."""
    pods = [each for each in items if each.get("kind") == "Pod"]
    for each in pods:
        metadata = mapping_at(each, "metadata")
        if f"{metadata.get('namespace')}/{metadata.get('name')}" == target:
            return _addresses(each)
    return []


def _addresses(pod: Mapping[str, Any]) -> list[str]:
    found = [each.get("ip") for _, each in mappings_at(pod, "status.podIPs")]
    found = found or [mapping_at(pod, "status").get("podIP")]
    return [each for each in found if isinstance(each, str)]


def _look(
    server: DnsServer,
    questions: Sequence[Question],
    expected: Callable[[int], Answer | None],
    sleep: Callable[[float], None],
) -> dict[str, Any]:
    """The answers of a server to all questions, until it is silent."""
    drawn = random.Random()
    named = {word_of(each).replace("/", " "): number for number, each in enumerate(questions)}

    def look(number: int) -> dict[str, Any]:
        def ask_once() -> dict[str, Any]:
            before, query = expected(number), questions[number].query()
            reply = ask(server.host, server.port, query, EACH, drawn, TRIES)
            said, usable = answer_of(reply.rcode, reply.answer), is_usable(reply, query)
            both = before, expected(number)
            return answer_object(questions[number], said, both, is_usable=usable)

        return settled(ask_once, lambda looked: looked["right"] is True, sleep)

    answers, silence = ask_all(named, look)
    wrong = [number for number, each in enumerate(answers) if not each["right"]]
    if wrong:
        answers[wrong[0]]["faults"] = _rules_at(server, questions[wrong[0]])
    if silence["silence"] and not silence["refused"]:
        silence["silence"] = f"{silence['silence']}{_rules_at(server, questions[len(answers)])}"
    # Its addresses are right, and only this cluster has them.
    is_known = any(
        question.group == OWN and each["right"] is True and each["records"] > 0
        for question, each in zip(questions, answers, strict=False)
    )
    return server_object(server, answers, silence, is_known=is_known)


def _rules_at(server: DnsServer, question: Question) -> str:
    """The rules of faults that hit a question, as the end of a sentence, or ""; why a Pod's are not known."""
    for path in sockets():
        with suppress(ServerError):
            running = find(str(path))
            if (server.host, server.port) in running.dns_addresses():
                name, qtype = question.name.to_text(), type_to_text(question.qtype)
                rules = running.get(f"/v1/explain?{urlencode({'name': name, 'type': qtype})}")
                return "".join(f"; {each}" for each in rules.get("faults", ()))
    if server.role != POD:
        return ""
    try:
        if before := _hits(server.host):
            with suppress(NoReply):
                ask(server.host, server.port, question.query(), EACH, random.Random())
            risen = sorted(dict(_hits(server.host).items() - before.items()))
            return "".join(
                f'; fault rule "{each}" may hit this query: its hits rose with it' for each in risen
            )
        return ""
    except (OSError, HTTPException):
        where = f"{server.host} port {METRICS_PORT}"
        return f"; whether a fault rule hits it is not known, as there are no metrics at {where}"


def _hits(host: str) -> dict[str, str]:
    """The hits of each fault rule, as the metrics of a server have them; raise OSError or HTTPException."""
    with closing(HTTPConnection(host, METRICS_PORT, timeout=EACH)) as connection:
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode("utf-8", "replace")
    return dict(_HITS.findall(page))


def settled(
    look: Callable[[], T], is_settled: Callable[[T], bool], sleep: Callable[[float], None]
) -> T:
    """The first look that is settled, or the last of LOOKS: a change takes a moment to reach a server."""
    for _ in range(LOOKS - 1):
        found = look()
        if is_settled(found):
            return found
        sleep(PAUSE)
    return look()


def _is_reached(found: Mapping[str, Any]) -> bool:
    """Whether it is there; an answer without the right records may come from something between."""
    return found["refused"] or any(each["right"] and each["records"] for each in found["answers"])


VIEW: Final = "view"  # the role of servers that were queried from a Pod


def server_object(
    server: DnsServer,
    answers: Sequence[Mapping[str, Any]],
    silence: Mapping[str, object],
    *,
    is_known: bool,
) -> dict[str, Any]:
    """A server with its answers, and why it got no further queries, as ask_all() returns it.

    `is_known`: whether the answers are known to be those of this cluster's DNS.
    """
    return {
        "apiVersion": "hsdns.io/v1",
        "kind": DNS_SERVER,
        "metadata": {"name": server.host},
        "role": server.role,
        "about": server.about,
        "address": str(server),
        "answers": list(answers),
        **silence,
        "known": is_known,
    }


def answer_object(
    question: Question, said: Answer, expected: Sequence[Answer | None], *, is_usable: bool = True
) -> dict[str, Any]:
    """An answer, with its missing and its extra records.

    It is right if it is one of those that were right at some time, the last one now; without any, if it is no failure.
    """
    right = expected[-1]
    if None in expected:  # the objects do not determine it
        is_right = said.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN)
    else:
        is_right = any(map(said.says, expected))
    is_right = is_right and is_usable
    found: dict[str, Any] = {
        "name": question.name.to_text(),
        "type": type_to_text(question.qtype),
        "rcode": rcode_to_text(said.rcode),
        "right": is_right,
        "records": len(said.records),
    }
    if not is_right and right is not None:
        found["expected"] = rcode_to_text(right.rcode)
        found["lacks"], found["has"] = differences(said, right)
    return found


def word_of(question: Question) -> str:
    """A question as an argument of `hsdns ask`."""
    return f"{question.name.to_text()}/{type_to_text(question.qtype)}"


def seen_from(
    about: str,
    printed: Sequence[Mapping[str, Any]],
    questions: Sequence[Question],
    before: Sequence[Answer | None],
    after: Sequence[Answer | None],
) -> list[dict[str, Any]]:
    """The output of `hsdns ask` as objects; raise ValueError, KeyError or TypeError for other output.

    `before` and `after` are the right answers before and after it ran.
    """
    numbers = {word_of(each): number for number, each in enumerate(questions)}
    found = []
    for server in printed:
        answers = []
        for each in server["answers"]:
            number = numbers[each["question"]]
            question = questions[number]
            records = [
                RR(question.name, int(rrtype), 0, bytes.fromhex(rdata), RRClass.IN)
                for rrtype, rdata in each["records"]
            ]
            said = answer_of(rcode_from_text(each["rcode"]), records)
            answers.append(answer_object(question, said, (before[number], after[number])))
        silence = {"silence": str(server["silence"]), "refused": server["refused"] is True}
        of = DnsServer(VIEW, about, server["host"], int(server["port"]))
        found.append(server_object(of, answers, silence, is_known=True))
    return found


MOST: Final = 32  # names
WITNESSES: Final = 3  # Services
KUBERNETES: Final = (b"default", b"kubernetes")  # the API server; in every cluster
OWN: Final = "own"  # the group of questions whose right answer only this cluster's DNS knows
COMMON: Final = "common"  # of all others
_IN_ALL: Final = frozenset(
    {KUBERNETES, *((each.namespace.encode(), each.name.encode()) for each in KNOWN)}
)


def doctor_questions(
    answer_set: AnswerSet,
    target: str,
    addresses: Collection[str],
    of_dns: Collection[tuple[str, str]] = (),
) -> list[Question]:
    """The questions; `target` is NAMESPACE[/NAME] or empty, `addresses` are those of the Pod with that name.

    `of_dns` are more Services of the DNS, by namespace and name.
    """
    if not answer_set.forward_zones:
        return []
    zone = answer_set.forward_zones[0]
    values = answer_set.exposed(zone)
    namespace, _, name = target.lower().partition("/")
    chosen = (namespace.encode(), name.encode())
    in_all = _IN_ALL | {(one.encode(), other.encode()) for one, other in of_dns}
    found: dict[tuple[Name, int], str] = {}
    for key in (KUBERNETES, *([chosen] if chosen in values else [])):
        owner = Name.from_labels((key[1], key[0], SVC, *zone.labels))
        own = [] if key not in values else list(answer_set.of_service(zone, key, values[key]))
        if key == KUBERNETES:
            own = [each for each in own if each[0].owner == owner and each[0].rrtype != RRType.SRV]
        if not any(each[0].owner == owner for each in own):
            found[owner, RRType.A] = COMMON
        found |= _grouped(own, COMMON if key in in_all else OWN)
    packed = {ip_address(each).packed for each in addresses}
    for key, value in values.items():
        if packed and key[0] == chosen[0] and _has(value, packed):
            rrsets = _with(answer_set, zone, key, value, packed)
            found |= _grouped(rrsets, COMMON if key in in_all else OWN)
    others = {key: value for key, value in values.items() if key not in {*in_all, chosen}}
    proofs = _grouped(islice(_witnesses(answer_set, zone, others), WITNESSES), OWN)
    listed = [each for each in found.items() if not _is_port(*each[0]) and each[0] not in proofs]
    listed[MOST - len(proofs) :] = proofs.items()
    return [Question(*question, group) for question, group in listed]


def witnesses(answer_set: AnswerSet) -> list[RRset]:
    """Addresses of a few Services, which only a server of this cluster knows."""
    values = answer_set.exposed(zone := answer_set.forward_zones[0])
    own = {key: value for key, value in values.items() if key not in _IN_ALL}
    return list(islice(_witnesses(answer_set, zone, own), WITNESSES))


def _grouped(rrsets: Iterable[RRset], group: str) -> dict[tuple[Name, int], str]:
    return {
        (each[0].owner, each[0].rrtype): group if each[0].rrtype in ADDRESSES else COMMON
        for each in rrsets
    }


def _witnesses(
    answer_set: AnswerSet, zone: Name, values: Mapping[Key, ServiceValue]
) -> Iterator[RRset]:
    """The addresses of Services, first of those with a cluster IP: they seldom change."""
    for key in sorted(values, key=lambda each: (not values[each].cluster_ips, each)):
        owner = Name.from_labels((key[1], key[0], SVC, *zone.labels))
        for rrset in answer_set.of_service(zone, key, values[key]):
            if rrset[0].owner == owner and rrset[0].rrtype in ADDRESSES:
                yield rrset
                break


def _is_port(owner: Name, rrtype: int) -> bool:
    """Whether it is the address at a name for SRV, which no client queries."""
    return owner.labels[0].startswith(b"_") and rrtype != RRType.SRV


def _has(value: ServiceValue, packed: Collection[bytes]) -> bool:
    return any(address in packed for part in value.slices for address in part.separate)


def _with(
    answer_set: AnswerSet, zone: Name, key: Key, value: ServiceValue, packed: Collection[bytes]
) -> Iterator[RRset]:
    """The RRsets of a Service with one of these addresses."""
    for rrset in answer_set.of_service(zone, key, value):
        if any(record.rdata in packed for record in rrset):
            yield rrset
