"""Pods: the names `1-2-3-4.NAMESPACE.pod.ZONE`, and which pod a query comes from.

Path: plugins/kubernetes.py asks for the address that a pod's label means, and for the pod of a client.
Source: CoreDNS 1.14.7 plugin/kubernetes findPods.
"""

from __future__ import annotations

from hsdns.cluster.pack import pack_address
from hsdns.cluster.store import PodKey, Store
from hsdns.wire.rdata import address_to_text


def pod_address(label: bytes, store: Store | None, namespace: bytes) -> bytes | None:
    """The address in a pod's label; with a store only if a pod of that namespace has it (`pods verified`)."""
    text = _address_text(label)
    if text is None:
        return None
    address = pack_address(text)
    if address is None or store is None:
        return address
    # The stored address is compared as text, so only the usual way to write it finds a pod.
    if address_to_text(address) != text:
        return None
    return address if pod_count(address, store, namespace) else None


def pod_count(address: bytes, store: Store, namespace: bytes) -> int:
    """How many pods of a namespace have an address; those on the host's network share one."""
    return sum(owner[0] == namespace for owner in store.pods.get(address, ()))


def client_pod(store: Store, address: str) -> PodKey | None:
    """The pod that has a client's address: its namespace and name; None where none has, or it could be several's.

    An address comes to a new pod while the one before it may still be listed as being deleted, so those count only
    where there is no other.  Pods of several namespaces share an address on the network of their host.
    """
    packed = pack_address(address)
    pods = store.pods.get(packed, ()) if packed is not None else ()
    found = [pod for pod in pods if pod not in store.leaving] or pods
    return found[-1] if len({namespace for namespace, _ in found}) == 1 else None


def _address_text(label: bytes) -> str | None:
    """Three single dashes make IPv4, anything else IPv6."""
    try:
        text = label.decode("ascii")
    except UnicodeDecodeError:
        return None
    if text.count("-") == 3 and "--" not in text:
        return text.replace("-", ".")
    return text.replace("-", ":")
