"""An object with what a recording needs of it.

Path: server/control/watch.py, before an object is written -> here.
Rule 1: the labels of slices that assign them are recorded, and the labels of pods, which selectors of Services look at.
        What the selectors of a Corefile choose is chosen before.
Rule 2: annotations are not recorded, but the time of the change that made a slice.
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
    """The object without what DNS has no use for."""
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
