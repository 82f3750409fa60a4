"""Finds the names that a missing one was meant to be, by what people confuse.

Path: explain.py, for a name that does not exist -> here.
Rule 1: a name is proposed only if the server has records of the queried type for it.
Rule 2: there are three kinds of guesses, and one is made only if the one before it found nothing: the same labels in
        another form; an object that has exactly a label of the name, in another place; a label that is spelt alike.
Rule 3: words are spelt alike as people mistype them: few edits for their length, and the same digits; or one is the
        other with the parts that charts and Helm add to names.  Random text is like nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hsdns.causes.labels import SHORT, edits
from hsdns.cluster.address import dashed, is_reverse, pack_address
from hsdns.cluster.lookup import NoSuchName
from hsdns.cluster.objects import Pod
from hsdns.cluster.pack import pack_label
from hsdns.cluster.schema import POD, SVC
from hsdns.cluster.store import address_in
from hsdns.cluster.value import Key, Port, ServiceValue
from hsdns.explanation.report import NearName
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.manifests import text
from hsdns.wire.iana import RRType
from hsdns.wire.message import Reply
from hsdns.wire.name import Name

MOST: Final = 4  # names that are reported
MOST_SAID: Final = 3  # names in one sentence; of more, none was meant
MOST_GUESSES: Final = 300  # names that are queried
KEYS: Final = 500  # Services whose names are read between two pauses
# Services whose endpoints are read, or words that are compared, between two pauses.
PIECE: Final = 20
Labels = tuple[bytes, ...]


class Guess(NamedTuple):
    """Labels below the zone, how the queried ones differ, and what is said of the name."""

    labels: Labels
    why: str
    says: str = "{names} exist{s}"


class Form(NamedTuple):
    """Labels that end in svc or pod, and how the queried ones differ; `is_sure`: it is surely a name of a cluster."""

    labels: Labels
    why: str = ""
    is_sure: bool = True


class Nearest(NamedTuple):
    """The names that exist, likely ones first, and for the first line how the name differs, and what is said of them.

    `why` is empty for names that are spelt alike.  `is_sure`: the name is surely meant to be one of the cluster, and
    `todo` says what to do then.
    """

    names: Sequence[NearName] = ()
    why: str = ""
    shown: str = ""
    is_sure: bool = False
    todo: str = ""

    @property
    def hint(self) -> str:
        """Both as a sentence."""
        return "; ".join(filter(None, (self.why, self.shown)))


NOTHING: Final = ServiceValue(None)  # of a Service that an event removes meanwhile
Guesses = Iterator[Guess | None]  # None where other work may run
ALIKE: Final = "did you mean {names}?"


async def nearest(
    block: Kubernetes,
    qname: Name,
    qtype: int,
    pods: Iterable[Pod],
    pause: Callable[[], Awaitable[None]],
) -> Nearest:
    """Existing names of the block for this type that are near to the queried one; `pods` are those that are known."""
    zone = qname.longest_of(block.zones)
    home = zone or next((each for each in block.zones if not is_reverse(each)), None)
    if home is None or not qname.labels or is_reverse(home) or qtype in (RRType.AXFR, RRType.IXFR):
        return Nearest()
    forms = list(_forms(qname.labels if zone is None else qname.below(home), zone, home))
    places = _Places(block, home, pods)
    kinds = (
        (Guess(*form[:2]) for form in forms),
        (each for form in forms for each in places.elsewhere(form)),
        (each for form in forms for each in places.alike(form)),
    )
    found: dict[str, Guess] = {}
    left = MOST_GUESSES
    for kind in kinds:
        for guess in kind:
            await pause()
            if guess is None or not guess.why:
                continue
            left -= 1
            if left < 0 or len(found) == MOST:
                break
            try:
                name = Name.from_labels((*guess.labels, *home.labels))
            except ValueError:  # too long
                continue
            if name != qname and _has_records(block, name, qtype, home):
                found.setdefault(name.to_text(), guess)
        if found:
            return _said(found, is_sure=forms[0].is_sure)
    return places.unanswered(forms[0].labels, qname, block, home) if forms else Nearest()


def _said(found: dict[str, Guess], *, is_sure: bool) -> Nearest:
    names = [NearName(name, each.why) for name, each in found.items()]
    _, why, says = next(iter(found.values()))
    same = [name.removesuffix(".") for name, each in found.items() if each[1:] == (why, says)]
    todo = f"use {' or '.join(same[:MOST_SAID])}" if is_sure else ""
    if says == ALIKE:
        shown = says.format(names=" or ".join(same))
        return Nearest(names, "" if is_sure else why, shown, is_sure, todo)
    shown = says.format(names=_listed(same), s="" if same[1:] else "s")
    return Nearest(names, why, shown, is_sure, todo)


def _listed(words: Sequence[str]) -> str:
    """The first words, as in a sentence."""
    shown = [*words[:MOST_SAID], *(["others"] if words[MOST_SAID:] else [])]
    return " and ".join([*([", ".join(shown[:-1])] if shown[1:] else []), shown[-1]])


def _has_records(block: Kubernetes, name: Name, qtype: int, zone: Name) -> bool:
    """Whether a name has records of the type, or any address, if the type is one that no Service has."""
    answers = block.answers
    try:
        found = answers.lookup.find(name, zone, None)
    except NoSuchName:
        return False
    if found is None or answers.is_missing(name, qtype, zone):
        return False
    if isinstance(found, bytes):
        return qtype != (RRType.AAAA if len(found) == 4 else RRType.A)
    node, _ = found
    if node.targets:  # an alias has those of its target, and what is outside is not known
        reply = answers.answer_at_once(
            name, RRType.AAAA if qtype == RRType.AAAA else RRType.A, zone
        )
        return not isinstance(reply, Reply) or any(
            each.rrtype != RRType.CNAME for each in reply.answer
        )
    has = {RRType.A: node.a, RRType.AAAA: node.aaaa, RRType.SRV: node.entry_count}
    return bool(has.get(qtype, node.a or node.aaaa))


# The same labels in another form.


# What people write in place of svc and pod, besides mistyping it.
KINDS: Final = {SVC: (b"service", b"services", b"srv"), POD: (b"pods",)}


def _forms(labels: Labels, below: Name | None, home: Name) -> Iterator[Form]:
    """What labels left of the zone, or all those of a name outside, stand for; the first is the name itself."""
    zone, domain = home.labels, home.to_text().removesuffix(".")
    marks = [at for at, label in enumerate(labels) if label in (SVC, POD)]
    for at in reversed(marks):
        head, rest = labels[: at + 1], labels[at + 1 :]
        other = ".".join(map(text, rest))
        if below is None:
            differs = f"the cluster domain is {domain}, not {other}"
            yield Form(head, differs if other else "the cluster domain is missing")
        elif not rest:
            yield Form(head)
        elif rest[: len(zone)] == zone:
            yield Form(head, "the cluster domain is in the name twice")
        elif rest[-1] in (SVC, POD) and len(rest) <= 2:
            yield Form(head, f"{other} is behind a name that is whole without it")
        elif rest == zone[: len(rest)]:
            yield Form(head, f"{other} is in the name twice")
        else:
            yield Form((*head[:-1], *rest, head[-1]), f"{text(head[-1])} is not in its place")
    if marks or not labels:
        return
    domain_too = " and the cluster domain are" if below is None else " is"
    last = text(labels[-1])
    for kind, words in KINDS.items():
        if labels[-1] in words or is_mistyped(last, text(kind)):
            yield Form((*labels[:-1], kind), f'"{last}" stands in the place of {text(kind)}')
    for at in range(1, len(labels)) if below is None else ():
        rest = labels[at:]
        if rest in (zone[: len(rest)], zone[-len(rest) :]) or is_mistyped(
            ".".join(map(text, rest)), domain
        ):
            why = f"svc is missing, and the cluster domain is {domain}, not {'.'.join(map(text, rest))}"
            yield Form((*labels[:at], SVC), why, is_sure=False)
    for kind in (SVC, POD):
        is_bare = below is None and len(labels) == 1
        why = "" if is_bare else f"{text(kind)}{domain_too} missing"
        yield Form((*labels, kind), why, is_sure=below is not None)


# Objects in other places.


class _Places:
    """Where a zone has Services, endpoints, ports and pods, by their names."""

    def __init__(self, block: Kubernetes, home: Name, pods: Iterable[Pod]) -> None:
        self._store, self._values = block.store, block.answers.lookup.values(home)
        self._is_read = False
        self._own: dict[bytes, list[bytes]] = defaultdict(list)  # Services of a namespace
        self._with: dict[bytes, list[bytes]] = defaultdict(list)  # namespaces of a Service
        # Pods by their names, and by those of their workloads.
        self._pods: dict[bytes | None, list[Pod]] = defaultdict(list)
        self._workloads: dict[bytes | None, list[Pod]] = defaultdict(list)
        for each in pods:
            self._pods[pack_label(each.metadata.name)].append(each)
            base = WORKLOAD.sub("", each.metadata.name)
            if base != each.metadata.name:
                self._workloads[pack_label(base)].append(each)

    def _read(self) -> Guesses:
        if self._is_read:
            return
        self._is_read = True
        keys = list(self._values)  # events may arrive meanwhile
        for number, (namespace, name) in enumerate(keys):
            if number % KEYS == 0:
                yield None
            self._own[namespace].append(name)
            self._with[name].append(namespace)

    def elsewhere(self, form: Form) -> Guesses:
        """Names of objects that have a label of the name, in another place."""
        yield from self._read()
        *rest, kind = form.labels
        for each in self._of_labels(tuple(rest), kind, is_sure=form.is_sure):
            yield each and each._replace(why=", and ".join(filter(None, (form.why, each.why))))

    def _of_labels(self, labels: Labels, kind: bytes, *, is_sure: bool) -> Guesses:
        if not labels:
            return
        yield from self._of_address(labels, kind)
        if kind == POD:
            yield Guess((*labels, SVC), "names of Services and endpoints end in svc, not in pod")
        elif is_sure:
            yield from self._of_service(labels)
        elif len(labels) == 1:
            for place in sorted(self._with[labels[0]]):
                yield Guess((*labels, place, SVC), "only a search list makes one label whole")
        elif len(labels) == 2:
            yield Guess((*labels[::-1], SVC), "Service and namespace are exchanged")
        if is_sure or len(labels) < 3:
            yield from self._of_pod(labels, kind)

    def _of_address(self, labels: Labels, kind: bytes) -> Guesses:
        """Addresses of pods with dots, below the other kind, or in another namespace."""
        if len(labels) > 4 and all(each.isdigit() for each in labels[:4]):
            words = (b"-".join(labels[:4]), *labels[4:])
            yield Guess((*words, kind), "an address in a name has dashes, not dots")
            yield Guess((*words, POD), "an address in a name has dashes, and stands below pod")
        address = address_in(labels[0])
        if address is None or len(labels) > 2:
            return
        places = dict.fromkeys(
            [pod[0] for pod in self._store.pods.by_address.get(address, ())]
            + [owner[0] for owner in self._store.services.endpoint_ips.lookup(address)]
        )
        if labels[-1] in places or (kind == SVC and labels[-1] in self._store.namespaces):
            yield Guess((labels[0], labels[-1], POD), "names of addresses end in pod, not in svc")
        for place in places:
            why = f"the pod with this address is in namespace {text(place)}"
            yield Guess((labels[0], place, POD), why)

    def _of_service(self, labels: Labels) -> Guesses:
        marked = [each for each in labels if each.startswith(b"_")]
        if marked and marked != list(labels[: len(marked)]):
            others = [each for each in labels if not each.startswith(b"_")]
            yield Guess((*marked, *others, SVC), "a port and its protocol stand in front")
        *before, name = labels
        for place in sorted(self._with[name]):
            yield Guess((*before, name, place, SVC), "the namespace is missing")
        for at, label in enumerate(labels):
            head, rest = labels[:at], (*labels[at + 1 :], SVC)
            if head and label == head[-1]:
                yield Guess((*head, *rest), f"the label {text(label)} is in the name twice")
            for cut in re.finditer(b"-", label):
                found = (*head, label[: cut.start()], label[cut.end() :], *rest)
                yield Guess(found, f"a dash in {text(label)} stands in the place of a dot")
            if head:
                found = (*head[:-1], head[-1] + b"-" + label, *rest)
                yield Guess(found, f"a dot before {text(label)} stands in the place of a dash")
        if not before:
            return
        *before, name, namespace = labels
        yield Guess((*before, namespace, name, SVC), "Service and namespace are exchanged")
        places = [place for place in sorted(self._with[name]) if place != namespace]
        meant = [place for place in places if is_mistyped(text(namespace), text(place))]
        places = meant or places
        for place in places:
            where = f"namespace{'s' if places[1:] else ''} {_listed([*map(text, places)])}"
            why = f"Service {text(name)} is in {where}, not in {text(namespace)}"
            yield Guess((*before, name, place, SVC), why)
        if before:
            yield Guess((*before, name, SVC), f"{text(namespace)} is one namespace too many")
            yield Guess((*before, namespace, SVC), f"the label {text(name)} is one too many")
            yield from self._of_port(tuple(before), name, namespace)

    def _of_port(self, before: Labels, name: bytes, namespace: bytes) -> Guesses:
        """Ports that are written in another way; an underscore is optional."""
        words = tuple(each.removeprefix(b"_") for each in before)
        for port in _ports(self._values.get((namespace, name))):
            named, protocol = port.name, port.protocol
            ways = {
                (protocol, named): "protocol and port are in the wrong order",
                (named,): f"the protocol is missing behind port {text(named)}",
                (protocol,): "the name of a port is missing before the protocol",
                (b"%d" % port.number, protocol): f"port {port.number} has the name {text(named)}",
                (b"%d" % port.number,): f"port {port.number} has the name {text(named)}",
                (name, protocol): f"a port of Service {text(name)} has the name {text(named)}",
            }
            if len(words) == 2 and words[0] == named:
                ways[words] = f"the protocol of port {text(named)} is {text(protocol)}"
            if words in ways:
                yield Guess((b"_" + named, b"_" + protocol, name, namespace, SVC), ways[words])
        if name.startswith(b"_") and len(before) == 1:
            protocol = name.removeprefix(b"_")
            found = [
                (b"_" + port.name, name, service, namespace, SVC)
                for service in self._own[namespace]
                for port in _ports(self._values.get((namespace, service)))
                if port.protocol == protocol and words[0] in (port.name, service)
            ]
            for labels in found if len(found) <= MOST_SAID else ():
                why = f"the Service is missing between {text(name)} and namespace {text(namespace)}"
                yield Guess(labels, why)

    def _of_pod(self, labels: Labels, kind: bytes) -> Guesses:
        """The names of a pod, or of the Service of a workload, that is in the place of a Service."""
        label, namespace = labels[0], labels[-1] if len(labels) > 1 else b""
        below = ", not a Service"
        if kind == POD:
            below = ", and names that end in pod are addresses"
        elif len(labels) == 3:
            below = f", not behind Service {text(labels[1])}"
        for pod in _in_namespace(self._pods[label], namespace):
            named, unnamed = list[Labels](), list[Labels]()
            for own, service in self._endpoints_of(pod):
                (unnamed if address_in(own) else named).append((own, *service[::-1], SVC))
            for found in sorted(named, key=lambda each: each[0] != label):
                yield Guess(found, f"{text(label)} is a pod{below}", "its name is {names}")
            why = f"{text(label)} is a pod without a DNS name"
            if pod.spec.hostname and pod.spec.subdomain:
                continue
            if not named and (address := pack_address(pod.status.pod_ip or "")) is not None:
                yield Guess((dashed(address), pod.metadata.namespace.lower().encode(), POD), why)
            for found in unnamed if not named else ():
                yield Guess(found[1:], why)
        pods = self._workloads[label]
        if any(has_parts(text(label), text(each)) for each in self._own[namespace]):
            pods = [each for each in pods if pack_label(each.metadata.namespace) == namespace]
        for pod in _in_namespace(pods, namespace)[:1]:
            what = "Deployment" if DEPLOYED.fullmatch(pod.metadata.name) else "workload"
            what = "StatefulSet" if pod.spec.subdomain else what
            why = f"{text(label)} is a {what}, not a Service"
            for _, service in self._endpoints_of(pod):
                if service[1] != label:  # else it is a Service, too
                    yield Guess((*service[::-1], SVC), why, "its Service is {names}")
        if name := DEPLOYED.fullmatch(text(label)):
            why = f"{text(label)} is like the name of a Deployment's pod, which has no DNS name"
            for own in list(self._own[namespace] if namespace else self._with):
                if text(own) == name[1] or has_parts(text(own), name[1]):
                    for place in [namespace] if namespace else self._with[own]:
                        yield Guess((own, place, SVC), why)
        yield from self._of_endpoint(label, labels, kind)

    def _of_endpoint(self, label: bytes, labels: Labels, kind: bytes) -> Guesses:
        """The Services with an endpoint of this label, those of the namespace first."""
        namespace, first, address = labels[-1], label + b"-0", address_in(label)
        for places in ((namespace,), [each for each in self._own if each != namespace]):
            keys = ((place, service) for place in places for service in self._own[place])
            found: list[Guess] = []
            for number, (place, service) in enumerate(keys):
                if number % PIECE == 0:
                    yield None
                value = self._values.get((place, service)) or NOTHING
                why = f"{{}} is an endpoint of Service {text(service)}"
                if _has_label(value, label, address):
                    found.append(Guess((label, service, place, SVC), why.format(text(label))))
                elif kind == SVC and place == namespace and _has_label(value, first):
                    found.append(Guess((service, place, SVC), why.format(text(first))))
            yield from found
            if found:
                return

    def unanswered(self, labels: Labels, qname: Name, block: Kubernetes, home: Name) -> Nearest:
        """The name that the objects mean a pod to have, if the pod stands in the place of a Service."""
        namespace = labels[-2] if len(labels) > 2 else b""
        found: dict[str, Guess] = {}
        missing = Nearest()
        for pod in _in_namespace(self._pods[labels[0]], namespace):
            parts = (pod.spec.hostname, pod.spec.subdomain, pod.metadata.namespace)
            name = ".".join([*(each or "" for each in parts), text(SVC), home.to_text()])
            if not all(parts) or name.lower() == qname.to_text().lower():
                continue
            if _has_records(block, Name.from_text(name), RRType.A, home):
                found[name] = Guess((), f"namespace {text(namespace)} has no pod {text(labels[0])}")
            elif not missing.why:
                name = name.removesuffix(".")
                what = f"{text(labels[0])} is a pod, not a Service"
                why = f"{what}; its name would be {name}, which does not exist either"
                missing = Nearest((), why, is_sure=True, todo=f"hsdns explain {name}")
        return _said(found, is_sure=True) if found else missing

    def _endpoints_of(self, pod: Pod) -> Iterator[tuple[bytes, Key]]:
        """The labels of a pod below the Services that have its address."""
        address = pack_address(pod.status.pod_ip or "")
        for *key, part_name in self._store.services.endpoint_ips.lookup(address) if address else ():
            value = self._values.get((key[0], key[1]))
            for part in value.slices if value is not None else ():
                if part.name == part_name:
                    for index in part.positions(address or b""):
                        yield part.label(index), (key[0], key[1])

    # Labels that are spelt alike.

    def alike(self, form: Form) -> Guesses:
        """Names with one label that is spelt like that of the name."""
        *labels, kind = form.labels
        if len(labels) < 2 or not (form.is_sure or len(labels) == 2):
            return
        *before, name, namespace = labels
        namespaces, value = self._store.namespaces.copy(), self._values.get((namespace, name))
        ways: list[tuple[int, Iterable[bytes]]] = []  # the place of a label, and others for it
        if namespace not in namespaces:
            ways = [(len(labels) - 1, sorted(namespaces))]
        elif kind == SVC:
            ways = [(len(before), self._own[namespace])]
            if len(before) == 1 and value is not None:
                ways.append((0, value.labels))
        for at, words in ways:
            for word in alike_words(labels[at], words, text(namespace)):
                if word is None:
                    yield None
                else:
                    found = (*labels[:at], word, *labels[at + 1 :], kind)
                    why = f"spelt like {text(labels[at])}"
                    if not form.is_sure:
                        why = f"there is no namespace {text(namespace)}"
                    yield Guess(found, why, ALIKE)
        port = text(before[0].removeprefix(b"_")) if before else ""
        for each in _ports(value) if kind == SVC else ():
            if is_mistyped(port, text(each.name)):
                found = (b"_" + each.name, b"_" + each.protocol, name, namespace, kind)
                yield Guess(found, f"spelt like {port}", ALIKE)


# What is behind the workload's name in that of a pod.
WORKLOAD: Final = re.compile(r"(-\d+|(-[a-z0-9]{6,10})?-[a-z0-9]{5})$")
DEPLOYED: Final = re.compile(r"(.+)-[bcdf-hj-np-tv-xz0-9]{8,10}-[bcdf-hj-np-tv-xz2456789]{5}")


def _in_namespace(pods: Sequence[Pod], namespace: bytes) -> Sequence[Pod]:
    """Those of the namespace, all if it has none of them."""
    return [each for each in pods if pack_label(each.metadata.namespace) == namespace] or pods


def _ports(value: ServiceValue | None) -> Iterable[Port]:
    """The ports with a name, once each."""
    if value is None:
        return ()
    every = (*value.ports, *(port for part in value.slices for port in part.ports))
    return {(each.name, each.protocol): each for each in every if each.name}.values()


def _has_label(value: ServiceValue, label: bytes, address: bytes | None = None) -> bool:
    """Whether an endpoint has a label, which may be that of an address.

    ServiceValue.labels would compute and keep those of every Service.
    """
    return any(
        label in part.own_labels
        or (address is not None and any(True for _ in part.positions(address)))
        for part in value.slices
    )


# Words that are spelt alike.

LONG: Final = 8  # letters of a word in which people make two mistakes


def alike_words(word: bytes, words: Iterable[bytes], namespace: str = "") -> Iterator[bytes | None]:
    """The words that are mistyped, else those with other parts, if they are few; None where others may run."""
    mistyped: list[bytes] = []
    longer: list[bytes] = []
    shown = text(word)
    for number, each in enumerate(words):
        if number % PIECE == PIECE - 1:
            yield None
        if is_mistyped(shown, other := text(each)):
            mistyped.append(each)
        elif has_parts(shown, other, namespace):
            longer.append(each)
    found = mistyped or longer
    if len(found) <= MOST_SAID:
        yield from found


def is_mistyped(word: str, other: str) -> bool:
    """Whether a person may have typed a word for another one."""
    if word == other or min(len(word), len(other)) < 2:
        return False
    if word.replace("_", "-") == other.replace("_", "-"):
        return True
    most = 2 if min(len(word), len(other)) >= LONG else 1
    # An edit changes two letters of the set at most.
    if abs(len(word) - len(other)) > most or len(set(word) ^ set(other)) > 2 * most:
        return False
    if re.sub(r"\D", "", word) != re.sub(r"\D", "", other):
        return False
    return edits(word, other, is_short=len(other) <= SHORT) <= most


# Parts that charts put behind a name, and that people put in front of one.
BEHIND: Final = frozenset(
    "svc service services headless hl master primary secondary replica replicas server client cluster node nodes peers "
    "discovery internal external http lb ro rw active standby bootstrap broker brokers controller metrics".split()
)
IN_FRONT: Final = frozenset("my prod production staging stage dev test qa release".split())


def has_parts(word: str, other: str, namespace: str = "") -> bool:
    """Whether one word is the other with usual parts behind, or a release, an environment or a namespace in front."""
    parts, longer = sorted((word.split("-"), other.split("-")), key=len)
    if len("".join(parts)) < 3 or len(parts) == len(longer):
        return False
    for at in range(len(longer) - len(parts) + 1):
        front, end = "-".join(longer[:at]), at + len(parts)
        is_release = at <= 2 and len(word) < len(other) and front.replace("-", "").isalpha()
        is_usual = not front or is_release or front in IN_FRONT or front == namespace
        if longer[at:end] == parts and is_usual and BEHIND.issuperset(longer[end:]):
            return True
    return False
