"""Pods by address: for the names `1-2-3-4.NAMESPACE.pod.ZONE` and to find the pod that a query comes from.

Path: store.py passes on the events -> lookup.py reads the address in a pod's name; the kubernetes plugin looks up the
pod of a client.
Source: CoreDNS 1.14.7 plugin/kubernetes findPods; controller.go for terminating pods.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import Pod
from hsdns.cluster.pack import pack_label
from hsdns.cluster.rejected import RejectedObjects, quoted
from hsdns.cluster.replaced import PODS, TERMINATING, Replaced
from hsdns.wire.rdata import address_to_text

PodKey = tuple[bytes, str]  # namespace in lower case, and name


class PodsByAddress:
    """Pods by address; `terminating` are those that are being deleted."""

    def __init__(
        self, by_address: Mapping[bytes, tuple[PodKey, ...]], terminating: Container[PodKey]
    ) -> None:
        self.by_address = by_address
        self.terminating = terminating

    def count(self, address: bytes, namespace: bytes) -> int:
        """The number of pods in a namespace with this address; pods on the host network share one."""
        return sum(owner[0] == namespace for owner in self.by_address.get(address, ()))

    def of_client(self, address: str) -> PodKey | None:
        """The pod with a client's address; None if there is none, or pods of several namespaces have it.

        A new pod may get the address of one that is still listed as terminating, so terminating pods only count if
        there is no other.  Pods of several namespaces share an address on the host network.
        """
        packed = pack_address(address)
        pods = self.by_address.get(packed, ()) if packed is not None else ()
        found = [pod for pod in pods if pod not in self.terminating] or pods
        return found[-1] if len({namespace for namespace, _ in found}) == 1 else None

    def address_of(self, label: bytes, namespace: bytes) -> bytes | None:
        """The address in a pod's label if a pod of that namespace has it (`pods verified`)."""
        text = _address_text(label)
        address = None if text is None else pack_address(text)
        # CoreDNS compares the stored address as text, so only its canonical form finds a pod.
        if address is None or address_to_text(address) != text:
            return None
        return address if self.count(address, namespace) else None


class Pods(PodsByAddress):
    """The pods of a store; `labels` holds the labels of pods, None if they are not kept.

    `changes` is a number that grows with every change of an address.
    """

    by_address: dict[bytes, tuple[PodKey, ...]]
    terminating: dict[PodKey, bool]  # each True

    def __init__(self, rejected: RejectedObjects, *, labels: bool, replaced: Replaced) -> None:
        super().__init__({}, {})
        self._replaced = replaced
        self.labels: dict[PodKey, dict[str, str]] | None = {} if labels else None
        self.changes = 0
        self._rejected = rejected
        self._address: dict[PodKey, bytes] = {}

    def apply(self, pod: Pod, gone: bool) -> bool:
        """Apply an event about a pod; return whether its address, and so the serial of the zones, changes."""
        meta = pod.metadata
        namespace = pack_label(meta.namespace)
        if namespace is None:
            return False
        key = (namespace, meta.name)
        old = self._address.get(key)
        if not gone and meta.deletion_timestamp:
            if old is not None:
                if key not in self.terminating:
                    self._note_terminating(key)
                self.terminating[key] = True
            return False  # CoreDNS keeps a terminating pod as it was until it is deleted
        if key in self.terminating:
            self._note_terminating(key)
            del self.terminating[key]
        ended = gone or pod.status.phase in ("Succeeded", "Failed", "Unknown")
        new = None if ended or not pod.status.pod_ip else pack_address(pod.status.pod_ip)
        if new is None and pod.status.pod_ip and not ended:
            self._rejected.add(
                "address", f"podIP {quoted(pod.status.pod_ip)} is not an IP address; it is skipped"
            )
        self._rejected.finish("Pod", pod.key, gone)
        if self.labels is not None:
            if new is not None and meta.labels:
                self.labels[key] = meta.labels
            else:
                self.labels.pop(key, None)
        if old == new:
            return False
        self.changes += 1
        if self._replaced.is_kept:
            for each in filter(None, (old, new)):
                self._replaced.note(PODS, each, self.by_address.get(each))
        if old is not None:
            rest = tuple(known for known in self.by_address[old] if known != key)
            if rest:
                self.by_address[old] = rest
            else:
                del self.by_address[old]
            del self._address[key]
        if new is not None:
            self.by_address[new] = (*self.by_address.get(new, ()), key)
            self._address[key] = new
        return True

    def _note_terminating(self, key: PodKey) -> None:
        if self._replaced.is_kept:
            self._replaced.note(TERMINATING, key, self.terminating.get(key))


def address_in(label: bytes) -> bytes | None:
    """The address in a pod's label, None if it has none (`pods insecure`)."""
    text = _address_text(label)
    return None if text is None else pack_address(text)


def _address_text(label: bytes) -> str | None:
    """The label as an address: exactly three dashes, none of them doubled, make IPv4, anything else IPv6."""
    try:
        text = label.decode("ascii")
    except UnicodeDecodeError:
        return None
    if text.count("-") == 3 and "--" not in text:
        return text.replace("-", ".")
    return text.replace("-", ":")
