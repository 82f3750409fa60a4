"""ServiceImports and their slices, event by event; any history is compared in test_consistency.py."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    EndpointSlice,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
)
from hsdns.cluster.selector import Selector
from hsdns.cluster.store import Store, StoreSettings
from hsdns.cluster.value import CLUSTER_IP, HEADLESS
from tests.support.cluster.objects import deletes, endpoint_slice, meta, service, upserts


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
        return self.store.serial, self.store.shared_serial


WEB = imported("ns/web", "10.0.1.1")
DB = imported("ns/db")
EAST = shared_slice("ns/db-east", "db", "east", "172.1.0.1 host=a")
KEY = (b"ns", b"db")


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


def test_a_slice_may_come_first_and_outlive_its_import() -> None:
    scripted = ScriptedStore()
    scripted.after(*upserts(EAST))
    values = scripted.store.imports.values
    assert values[KEY].kind is None
    scripted.after(*upserts(DB))
    assert values[KEY].kind == HEADLESS
    assert [part.cluster for part in values[KEY].slices] == [b"east"]
    scripted.after(*deletes(DB))
    assert values[KEY].kind is None
    scripted.after(*deletes(EAST))
    assert values == {}


def test_a_slice_moves_between_imports_and_out_of_all() -> None:
    scripted = ScriptedStore()
    scripted.after(*upserts(DB, WEB, EAST))
    values = scripted.store.imports.values
    scripted.after(*upserts(shared_slice("ns/db-east", "web", "east", "172.1.0.1", version="2")))
    assert (len(values[KEY].slices), len(values[b"ns", b"web"].slices)) == (0, 1)
    scripted.after(*upserts(endpoint_slice("ns/db-east", "own", "172.1.0.1", version="3")))
    assert (len(values[KEY].slices), len(values[b"ns", b"web"].slices)) == (0, 0)
    assert len(scripted.store.services.values[b"ns", b"own"].slices) == 1


def test_a_slice_of_both_counts_for_both() -> None:
    scripted = ScriptedStore()
    scripted.after(*upserts(DB, service("ns/own")))
    scripted.after(*upserts(shared_slice("ns/s", "db", "west", "172.1.0.1 host=a", own="own")))
    (shared,) = scripted.store.imports.values[KEY].slices
    (own,) = scripted.store.services.values[b"ns", b"own"].slices
    assert (shared.cluster, own.cluster) == (b"west", b"")
    assert scripted.sentences == []


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


def test_kinds() -> None:
    scripted = ScriptedStore()
    scripted.after(
        *upserts(WEB, DB, ServiceImport(meta("ns/bare"), ServiceImportSpec("ClusterSetIP")))
    )
    values = scripted.store.imports.values
    assert {key[1]: value.kind for key, value in values.items()} == {
        b"web": CLUSTER_IP,
        b"db": HEADLESS,
        b"bare": CLUSTER_IP,
    }
    assert values[b"ns", b"bare"].ports == ()


def test_a_service_of_the_same_name_is_another_thing() -> None:
    scripted = ScriptedStore()
    own: Service = service("ns/db", "10.0.0.1")
    scripted.after(*upserts(DB, own, EAST))
    assert scripted.store.services.values[KEY].slices == ()
    assert scripted.store.services.values[KEY].kind == CLUSTER_IP
