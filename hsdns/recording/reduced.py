"""Reduces an object to the fields that a recording needs.

Path: server/control/watch.py, before an object is written -> here.
Rule 1: the only recorded labels are the label that assigns a slice to its Service, and the labels of Pods, which
        selectors of Services use.  The selectors of the Corefile have been applied before.
Rule 2: the only recorded annotation is the time of the change that a slice reflects.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    EndpointSlice,
    Object,
    ObjectMeta,
    Pod,
)
from hsdns.cluster.programming import CHANGE_TIME

OWNERS: Final = (SERVICE_NAME_LABEL, IMPORT_NAME_LABEL, SOURCE_CLUSTER_LABEL)


def reduced(found: Object) -> Object:
    """Return the object with only the fields that DNS needs."""
    meta = found.metadata
    labels = meta.labels if isinstance(found, Pod) else None
    annotations = None
    if isinstance(found, EndpointSlice):
        labels = {name: text for name, text in (meta.labels or {}).items() if name in OWNERS}
        if CHANGE_TIME in (meta.annotations or {}):
            annotations = {CHANGE_TIME: (meta.annotations or {})[CHANGE_TIME]}
    needed = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        resource_version=meta.resource_version,
        labels=labels or None,
        annotations=annotations,
        deletion_timestamp=meta.deletion_timestamp,
    )
    return structs.replace(found, metadata=needed)
