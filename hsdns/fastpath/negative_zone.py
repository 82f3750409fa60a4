"""Negative zones: zones in which all existing names are known, so that all other names need no entry.

Path: step 2; table.py calls it if it has no entry.  Twin of native/src/negative_zone.rs.
Rule 1: it answers only for a name strictly below the zone and not at or below an exclusion (a name that another handler
        may answer), only while an unlisted name is NXDOMAIN (ClusterNames.open), and only for the types that the zone
        has a group for.  With `no_edns`, queries with an OPT record go to the chain, whose reply gives the reason.
Rule 2: names have the forms of the Kubernetes DNS specification 1.1.0: SERVICE.NAMESPACE.svc.ZONE and below, and
        ADDRESS.NAMESPACE.pod.ZONE and below.  A query for a name that may exist goes to the chain: empty non-terminals,
        Services, listed names below these, and every name that looks like an address of a Pod, whatever `pods` says;
        where every address has such a name, pod_names.py answers it.
Rule 3: the reply is made from a template, which is one real reply of the chain: the zone's SOA and nothing else
        (soa_template.py).
Rule 4: a name is walked once, from its first label to the zone, and labels are compared with their lengths.  The walk
        also detects octets that only end like a name, because the query may not have been parsed (key.py, cut_query()).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from hsdns.fastpath.hit_counts import CACHE_MISS, SIZE_SHIFT, kind_of
from hsdns.fastpath.key import KEY_EDNS, PlainQuery
from hsdns.fastpath.pod_names import PodNames, PodReply
from hsdns.fastpath.soa_template import SoaTemplate
from hsdns.fastpath.versions import ClusterNames, Hashes, has_label, has_port
from hsdns.wire.iana import Rcode
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN

NOT_BELOW: Final = -1
LEFT_TO_CHAIN: Final = -2

_SERVICES: Final = b"\3svc"
_PODS: Final = b"\3pod"
# The octets of an address, and of a label that stands for one.
_IN_ADDRESSES: Final = b"0123456789abcdef-."
# Labels directly below the zone whose subtrees are not listed in ClusterNames.
_UNLISTED: Final = frozenset({b"\3dns", b"\x0bdns-version"})
_FIRST_LABELS: Final = frozenset(label[1:] for label in (_SERVICES, _PODS, *_UNLISTED))
# Names with three or more labels below a Service exist only below this label, if it is listed.
_TOPOLOGY: Final = b"\5_zone"
# The distance to the next label, by the octet that a label starts with; beyond every name for an invalid length.
_STEPS: Final = [
    1 + length if 0 < length <= MAX_LABEL_LEN else MAX_NAME_LEN + 1 for length in range(256)
]


class NegativeZone:
    """One negative zone; it answers nothing before it has a template."""

    def __init__(
        self,
        zone: bytes,
        names: ClusterNames,
        exclusions: Iterable[bytes],
        groups: Mapping[int, int],
        mark_ttl: int,
        log: bool,
        max_payload: int,
        no_edns: bool,
    ) -> None:
        self.zone = zone
        self.max_payload = max_payload
        self._no_edns = no_edns
        self.template: SoaTemplate | None = None
        self.pods = PodNames(len(zone))
        self._log = log
        self._groups = {
            qtype.to_bytes(2, "big"): self._kind_of(group, 0, mark_ttl)
            for qtype, group in groups.items()
        }
        self._names = names
        self._exclusions = frozenset(exclusions)

    def find(self, key: bytes) -> int:
        """Return the kind of the hit (without length and DO of the query) if the name certainly does not exist.

        Return NOT_BELOW if it is no name or not strictly below the zone, LEFT_TO_CHAIN if the chain must answer.
        """
        zone = self.zone
        end = len(key) - 3 - len(zone)
        if not 0 < end <= MAX_NAME_LEN - len(zone) or not key.startswith(zone, end):
            return NOT_BELOW
        at = first = second = third = 0
        while at < end:
            third, second, first = second, first, at
            at += _STEPS[key[at]]
        if at != end:
            return NOT_BELOW
        kind = self._groups.get(key[-3:-1])
        names, template = self._names, self.template
        if (
            kind is None
            or template is None
            or not names.open
            or (self._exclusions and self._is_excluded(key[:-3]))
        ):
            return LEFT_TO_CHAIN
        if self._no_edns and key[-1] & KEY_EDNS:
            return LEFT_TO_CHAIN
        label = key[first:end]
        if label == _PODS:
            if not first:
                return LEFT_TO_CHAIN
            if key[second + 1 : first] in names.namespaces and (
                not second or _may_be_address(key[third + 1 : second])
            ):
                return LEFT_TO_CHAIN
        elif label != _SERVICES:
            if label in _UNLISTED:
                return LEFT_TO_CHAIN
        elif not first:
            return LEFT_TO_CHAIN
        else:
            namespace = key[second + 1 : first]
            if namespace in names.namespaces:
                if not second:
                    return LEFT_TO_CHAIN
                hashes = names.services.get(namespace, {}).get(key[third + 1 : second])
                if hashes is not None and _may_exist_below(hashes, key, third):
                    return LEFT_TO_CHAIN
        return kind + (template.size + end + len(zone) + 4 << SIZE_SHIFT)

    def is_listed(self, key: bytes) -> bool:
        """Whether a key is that of the name of an existing Service, or of one of its endpoints."""
        end = len(key) - 3 - len(self.zone)
        if not 0 < end <= MAX_NAME_LEN - len(self.zone) or not key.startswith(self.zone, end):
            return False
        starts, at = [], 0
        while at < end:
            starts.append(at)
            at += _STEPS[key[at]]
        names = self._names
        if at != end or len(starts) not in (3, 4) or key[starts[-1] : end] != _SERVICES:
            return False
        service, namespace, last = starts[-3:]
        within = key[namespace + 1 : last]
        if not names.open or within not in names.namespaces:
            return False
        hashes = names.services.get(within, {}).get(key[service + 1 : namespace])
        return hashes is not None and (not service or has_label(hashes, key[:service]))

    def labels_left_to_chain(self, parent: bytes) -> Container[bytes]:
        """The labels directly below a name for which find() returns LEFT_TO_CHAIN, until CHANGES is incremented.

        The name is at or below the zone, and find() has found that a name directly below it does not exist.
        """
        excluded = {
            name[1 : 1 + name[0]] for name in self._exclusions if name[1 + name[0] :] == parent
        }
        found = self._possible_below(parent)
        return _Either(excluded, found) if excluded else found

    def record(self, end: int) -> bytes:
        """The SOA record for a question that ends at this offset, with the current serial."""
        assert self.template is not None, "a negative zone without template answers nothing"
        return self.template.record(end, self._names.serial)

    def set_template(self, plain: PlainQuery, query: bytes, reply: bytes, size: int) -> bool:
        """Make a template from a reply of the chain; return False if the reply cannot be one."""
        if not self._is_above(plain.qname):
            return False
        found = SoaTemplate.of(len(self.zone), plain, query, reply, Rcode.NXDOMAIN, size)
        self.template = self.template if found is None else found
        return found is not None

    def set_pod_form(
        self,
        plain: PlainQuery,
        query: bytes,
        reply: bytes,
        size: int,
        group: int,
        mark_ttl: int,
    ) -> bool:
        """Take the form of a reply about the name of a Pod, for all of them; False if that is not possible."""
        if not self._is_above(plain.qname):
            return False
        kinds = (self._kind_of(group, 0, mark_ttl), self._kind_of(group, 1, mark_ttl))
        labels = self._labels_left_of_zone(plain.key)
        return self.pods.set_form(labels, plain, query, reply, size, kinds)

    def find_pod(self, key: bytes, end: int) -> PodReply | None:
        """The reply about the name of a Pod, to a question that ends at this offset; None if the chain must answer."""
        names = self._names
        if not self.pods.has_form(key[-3:-1]) or not names.open or not self._is_above(key[:-3]):
            return None
        if self._no_edns and key[-1] & KEY_EDNS:
            return None
        labels = self._labels_left_of_zone(key)
        if len(labels) < 3 or labels[-2] not in names.namespaces:
            return None
        if self._exclusions and self._is_excluded(key[:-3]):
            return None
        return self.pods.find(labels, key, end, names.serial)

    def _labels_left_of_zone(self, key: bytes) -> list[bytes]:
        end, at = len(key) - 3 - len(self.zone), 0
        labels = []
        while at < end:
            labels.append(key[at + 1 : at + 1 + key[at]])
            at += 1 + key[at]
        return labels

    def _kind_of(self, group: int, answers: int, mark_ttl: int) -> int:
        cache = CACHE_MISS if mark_ttl == 0 else 0
        return kind_of(group, 0, answers if self._log else None, cache)

    def _possible_below(self, parent: bytes) -> Container[bytes]:
        end = len(parent) - len(self.zone)
        at = first = second = third = 0
        while at < end:
            third, second, first = second, first, at
            at += _STEPS[parent[at]]
        if not end:
            return _FIRST_LABELS
        kind = parent[first:end]
        if kind not in (_SERVICES, _PODS):
            return ()
        if not first:
            return self._names.namespaces
        namespace = parent[second + 1 : first]
        if namespace not in self._names.namespaces:
            return ()
        if kind == _PODS:
            return () if second else _ADDRESSES  # only labels below an address matter
        services = self._names.services.get(namespace, {})
        if not second:
            return services
        hashes = services.get(parent[third + 1 : second])
        if hashes is None or 0 < third != _STEPS[parent[0]]:
            return ()  # with three labels or more, none of them exists
        return _Listed(hashes, parent[1:third])

    def _is_above(self, qname: bytes) -> bool:
        end, at = len(qname) - len(self.zone), 0
        while at < end:
            at += _STEPS[qname[at]]
        return 0 < end == at and qname.endswith(self.zone)

    def _is_excluded(self, qname: bytes) -> bool:
        at = 0
        while qname[at:] not in self._exclusions:
            if not qname[at]:
                return False
            at += 1 + qname[at]
        return True


class _Either:
    """The labels in one of two sets."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Container[bytes], second: Container[bytes]) -> None:
        self._first = first
        self._second = second

    def __contains__(self, label: object) -> bool:
        return label in self._first or label in self._second


class _Addresses:
    """The labels that may stand for an address."""

    __slots__ = ()

    def __contains__(self, label: object) -> bool:
        assert isinstance(label, bytes), "as all labels"
        return _may_be_address(label)


_ADDRESSES: Final = _Addresses()


class _Listed:
    """The labels directly below a Service, or below one label below it, that may exist."""

    __slots__ = ("_hashes", "_nearest")

    def __init__(self, hashes: Hashes, nearest: bytes) -> None:
        self._hashes = hashes
        self._nearest = nearest

    def __contains__(self, label: object) -> bool:
        assert isinstance(label, bytes), "as all labels"
        if self._nearest:
            return has_port(self._hashes, label, self._nearest)
        return has_label(self._hashes, bytes((len(label),)) + label)


def _may_be_address(label: bytes) -> bool:
    """Return whether a label may be an address, or one with dashes; False for labels that certainly are none."""
    return not label.translate(None, _IN_ADDRESSES) and (b"." in label or label.count(b"-") > 1)


def _may_exist_below(hashes: Hashes, key: bytes, end: int) -> bool:
    """Return whether the labels to the left of a Service, up to `end`, are listed for it."""
    if not end:
        return True
    at = first = second = 0
    while at < end:
        second, first = first, at
        at += _STEPS[key[at]]
    nearest = key[first:end]
    if not first:
        return has_label(hashes, nearest)
    if not second:
        return has_port(hashes, key[1:first], nearest[1:])
    return nearest == _TOPOLOGY and has_label(hashes, nearest)
