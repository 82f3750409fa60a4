"""ServiceImports and their slices, event by event; any history is compared in test_consistency.py."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    EndpointSlice,
    Selector,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
)
from hsdns.cluster.store import Store, StoreSettings
from tests.support.cluster.objects import deletes, endpoint_slice, meta, upserts


def imported(
    path: str, *ips: str, version: str = "1", port: int = 80, labels: dict[str, str] | None = None
) -> ServiceImport:
    """A ServiceImport, headless without addresses."""
    spec = ServiceImportSpec(
        "ClusterSetIP" if ips else "Headless", list(ips), [ServicePort(port, "http", "TCP")]
    )
    return ServiceImport(meta(path, version, labels), spec)


def shared_slice(path: str, owner: str, cluster: str, *endpoints: str, version: str = "1", own: str | None = None) -> EndpointSlice:  # fmt: skip
    """A slice of a ServiceImport, and of a Service where `own` names one."""
    labels = {IMPORT_NAME_LABEL: owner, SOURCE_CLUSTER_LABEL: cluster}
    return endpoint_slice(path, own, *endpoints, version=version, labels=labels)


class ScriptedStore:
    """A store with a clock."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        self.sentences: list[str] = []
        self.store = Store(
            StoreSettings(multicluster=True, **options),
            wall=lambda: self.now,
            warn=self.sentences.append,
        )

    def after(self, *events: object) -> tuple[int, int]:
        """The serials, the own and the shared one, after some events that come a second later."""
        self.now += 1
        self.store.apply(events)  # type: ignore[arg-type]  # events
        return self.store.serial, self.store.imports.serial


WEB = imported("ns/web", "10.0.1.1")
EAST = shared_slice("ns/db-east", "db", "east", "172.1.0.1 host=a")


def test_serials_move_as_in_coredns() -> None:
    scripted = ScriptedStore()
    assert scripted.after(*upserts(WEB)) == (101, 0)
    assert scripted.after(*upserts(WEB)) == (101, 0)  # the same version
    assert scripted.after(*upserts(imported("ns/web", "10.0.1.2", version="2"))) == (
        101,
        0,
    )  # an address is not looked at
    assert scripted.after(*upserts(imported("ns/web", "10.0.1.2", version="3", port=81))) == (101, 104)  # fmt: skip
    assert scripted.after(*upserts(imported("ns/web", version="4", port=81))) == (
        101,
        105,
    )  # its type
    assert scripted.after(*deletes(WEB)) == (106, 105)
    assert scripted.after(*deletes(WEB)) == (106, 105)
    assert scripted.after(*upserts(EAST))[1] == 105
    changed = shared_slice("ns/db-east", "db", "east", "172.1.0.2 host=a", version="2")
    assert scripted.after(*upserts(changed))[1] == 109


def test_a_slice_of_an_import_alone_is_no_fault_and_leads_to_no_name_backwards() -> None:
    scripted = ScriptedStore()
    scripted.after(*upserts(EAST))
    assert scripted.sentences == []
    assert len(scripted.store.services.endpoint_ips.addresses()) == 0
    plain = Store(StoreSettings(), wall=lambda: 0.0, warn=scripted.sentences.append)
    plain.apply(upserts(EAST))
    assert scripted.sentences == []


def test_without_the_option_nothing_is_stored() -> None:
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    store.apply(upserts(WEB, EAST))
    assert store.imports.values == {}
    assert store.changes == 0


def test_the_selector_of_namespaces_chooses_imports() -> None:
    scripted = ScriptedStore(
        labels=Selector.from_text("app=web"), namespace_labels=Selector.from_text("team=a")
    )
    scripted.after(*upserts(WEB, imported("ns/in", "10.0.1.3", labels={"team": "a"})))
    assert set(scripted.store.imports.values) == {(b"ns", b"in")}


def test_faults_are_reported() -> None:
    scripted = ScriptedStore(endpoints=False)
    scripted.after(
        *upserts(
            imported("ns/" + "x" * 64, "10.0.1.1"),
            imported("ns/odd", "10.0.1"),
            shared_slice("ns/s", "db", "east", "172.1.0"),
        )
    )
    assert scripted.sentences == [
        f"ServiceImport ns/{'x' * 64}: its name is not a DNS label; it is skipped",
        'ServiceImport ns/odd: IP "10.0.1" is not an IP address; it is skipped',
        'EndpointSlice ns/s: "172.1.0" is not an IP address; it is skipped',
    ]
