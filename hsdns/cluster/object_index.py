"""Objects in memory, indexed for the lookups of a question.

Path: sources/manifests.py adds the objects that it has delivered -> here -> cluster/source.py.
Rule: no search: Services and slices are indexed by the Service that they belong to, pods by their namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, Service
from hsdns.cluster.pack import import_owner, pack_key, pack_label, slice_owner
from hsdns.cluster.source import MAX_PODS, OTHER_PODS, Lead
from hsdns.cluster.value import Key


class ObjectIndex:
    """The objects of a source."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        self._namespaces: dict[bytes | None, Namespace] = {}
        self._parts: dict[Key | None, list[Object]] = {}
        self._pods: dict[bytes | None, dict[str, Pod]] = {}
        # By address: the keys of the Services that have an endpoint there which is not ready, and the pods.
        self._owners: dict[bytes | None, list[Key | None]] = {}
        self._pods_with: dict[bytes | None, list[Pod]] = {}
        for each in objects:
            self._add(each)

    def _add(self, each: Object) -> None:
        meta = each.metadata
        if isinstance(each, Namespace):
            self._namespaces[pack_label(meta.name)] = each
        elif isinstance(each, Pod):
            self._pods.setdefault(pack_label(meta.namespace), {})[meta.name] = each
            if each.status.pod_ip:
                self._pods_with.setdefault(pack_address(each.status.pod_ip), []).append(each)
        elif isinstance(each, EndpointSlice):
            for owner in {slice_owner(meta), import_owner(meta)}:
                self._parts.setdefault(owner, []).append(each)
            for endpoint in each.endpoints or ():
                if endpoint.conditions is not None and endpoint.conditions.ready is False:
                    for text in endpoint.addresses or ():
                        owners = self._owners.setdefault(pack_address(text), [])
                        owners.append(slice_owner(meta))
        else:
            self._parts.setdefault(pack_key(meta), []).append(each)

    def find(self, lead: Lead) -> list[Object]:
        """The objects that a question leads to."""
        found: dict[int, Object] = {}
        address = pack_address(lead.address) if lead.address else None
        keys = [*lead.services, *(self._owners.get(address, ()) if address else ())]
        for key in keys:
            for each in self._parts.get(key, ()) if key is not None else ():
                found[id(each)] = each
        namespaces = [*lead.namespaces, *(key[0] for key in keys if key is not None)]
        for namespace in namespaces:
            if namespace in self._namespaces:
                place = self._namespaces[namespace]
                found[id(place)] = place
        parts = list(found.values())
        for pod in self._pods_of(parts):
            found[id(pod)] = pod
        for pod in self._pods_with.get(address, ()) if address else ():
            found[id(pod)] = pod
        return list(found.values())

    def _pods_of(self, parts: list[Object]) -> Iterable[Pod]:
        """The pods of the endpoints and of the selectors; other pods of the namespace if a selector matches none."""
        for each in parts:
            known = self._pods.get(pack_label(each.metadata.namespace), {})
            if isinstance(each, EndpointSlice):
                for endpoint in (each.endpoints or ())[:MAX_PODS]:
                    name = endpoint.target_ref.name if endpoint.target_ref else None
                    if name in known:
                        yield known[name]
            elif isinstance(each, Service) and (selector := each.spec.selector):
                looked = list(islice(known.values(), MAX_PODS))
                matched = [
                    pod for pod in looked if selector.items() <= (pod.metadata.labels or {}).items()
                ]
                yield from matched or looked[:OTHER_PODS]
