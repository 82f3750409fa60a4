"""Changes of options of the kubernetes block that exclude objects of more than one kind.

Path: candidates.py, endpoint_candidates.py and import_candidates.py -> here -> changes.Change.
"""

from __future__ import annotations

from hsdns.explanation.changes import Change


def without_labels(place: str) -> Change:
    """Remove the restriction by `labels`."""
    return Change(
        "Corefile",
        f"`labels` of the kubernetes block leaves out {place}",
        "`labels` matches its labels",
        lambda scene: scene.with_settings(labels=None),
    )


def without_namespace_labels(place: str) -> Change:
    """Remove the restriction by `namespace_labels`."""
    return Change(
        "Corefile",
        f"`namespace_labels` of the kubernetes block leaves out {place}",
        "`namespace_labels` matches its labels",
        lambda scene: scene.with_settings(namespace_labels=None),
    )


def without_ignore(place: str) -> Change:
    """Remove `ignore`, so that Services without a ready endpoint exist."""
    return Change(
        "Corefile",
        f"`ignore empty_service` hides {place}, because it has no ready endpoint",
        "`ignore empty_service` is removed",
        lambda scene: scene.with_options(ignore=False),
    )
