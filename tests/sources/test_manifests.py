"""The source `manifests`: start, changes, invalid files."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import watchfiles

import hsdns
from hsdns.cluster.objects import Deleted, Event, Object, Synced, Upserted
from hsdns.cluster.source import PodReading, PodUnreadable
from hsdns.corefile.tree import Position, Token
from hsdns.sources import manifests
from hsdns.sources.manifest_folder import standard_input
from hsdns.sources.manifests import Manifests, read_pod
from tests.support.cluster.object_lines import object_lines
from tests.support.plugins.runtime import FakeRuntime

pytestmark = pytest.mark.usefixtures("unread")

DEMO = Path(hsdns.__file__).parent / "demo"


def service(name: str, address: str = "10.96.0.7") -> str:
    return (
        f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  clusterIP: {address}\n"
    )


class Listener:
    """Collects what a source delivers and reports, and lets a test wait for it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.sentences: list[tuple[int, str]] = []
        self._more = asyncio.Condition()
        self._waking: set[asyncio.Task[None]] = set()

    def deliver(self, batch: Sequence[Event]) -> None:
        self.batches.append([event_line(event) for event in batch])
        self._wake()

    def report(self, level: int, message: str) -> None:
        self.sentences.append((level, message))
        self._wake()

    async def wait_until(self, condition: Callable[[], bool], patience: float = 20.0) -> None:
        async with asyncio.timeout(patience), self._more:
            await self._more.wait_for(condition)

    def _wake(self) -> None:
        async def notify() -> None:
            async with self._more:
                self._more.notify_all()

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # load() is called without a loop
        task = loop.create_task(notify())
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)


def event_line(event: Event) -> str:
    if isinstance(event, Synced):
        return "Synced"
    if isinstance(event, Deleted):
        meta = event.object.metadata
        return f"- {type(event.object).__name__} {meta.namespace}/{meta.name}"
    return f"+ {object_lines([event.object])[0]}"


def token(text: str, column: int = 1) -> Token:
    return Token(text, Position("Corefile", 3, column))


def loaded(*paths: Path | str) -> tuple[list[Object], list[tuple[int, str]]]:
    """Return the events and reports of a start."""
    batches: list[Sequence[Event]] = []
    sentences: list[tuple[int, str]] = []
    Manifests([str(path) for path in paths]).load(
        batches.append, lambda level, message: sentences.append((level, message))
    )
    [batch] = batches
    assert batch[-1] == Synced()
    assert all(isinstance(event, Upserted) for event in batch[:-1])
    return [event.object for event in batch if isinstance(event, Upserted)], sentences


def test_check_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    (tmp_path / "empty").mkdir()
    assert Manifests([str(tmp_path)]).check() == []
    assert Manifests([str(tmp_path / "x"), str(tmp_path / "empty")]).check() == [
        f'source manifests: there is no file or folder "{tmp_path}/x"; correct the path or create it',
        f'source manifests: folder "{tmp_path}/empty" holds no .yaml, .yml or .json file; '
        "add one or correct the path",
    ]


@pytest.mark.parametrize("text", ["", "replicaCount: 2\nimage: {tag: a}\n"], ids=["empty", "values-of-a-chart"])  # fmt: skip
def test_load_warns_where_nothing_is_served(text: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(text)
    objects, sentences = loaded(tmp_path)
    assert objects == []
    assert sentences == [
        (
            logging.WARNING,
            f"source manifests: {tmp_path}: it contains no Kubernetes object, so the cluster has no names; "
            "is it the right path, and were the templates of a chart rendered?",
        )
    ]


def test_standard_input_is_read_with_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = service("a", "10.96.0.8") + "  selektor: {}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    standard_input()
    (tmp_path / "a.yaml").write_text(service("a"))
    words = [token("-"), token(str(tmp_path))]
    assert Manifests.setup(token("manifests"), words, "/etc").paths == ("-", str(tmp_path))
    objects, sentences = loaded("-", tmp_path)
    assert object_lines(objects, "Service") == ["Service default/a ClusterIP 10.96.0.7"]
    again, _ = loaded(tmp_path, "-")
    assert object_lines(again, "Service") == ["Service default/a ClusterIP 10.96.0.8"]
    assert sentences == [
        (
            logging.WARNING,
            'standard input:7: Service default/a: spec has no field "selektor"; did you mean "selector"?',
        ),
        (
            logging.WARNING,
            f"{tmp_path}/a.yaml:1: Service default/a is already defined at standard input:1; this later one is used",
        ),
    ]


def test_a_chart_is_not_empty_but_to_be_rendered(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("name: web\n")
    (tmp_path / "values.yaml").write_text("a: {{\n")
    objects, sentences = loaded(tmp_path)
    assert objects == []
    [(level, sentence)] = sentences
    assert level == logging.WARNING
    assert sentence.startswith(f"source manifests: {tmp_path} is a Helm chart")
    assert Manifests([str(tmp_path)]).check() == [sentence]


def test_settings_of_other_programs_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(service("web"))
    (tmp_path / "tsconfig.json").write_text('{"strict": true /* always */}')
    objects, sentences = loaded(tmp_path)
    assert "Service default/web" in "\n".join(object_lines(objects))
    assert sentences == [
        (
            logging.WARNING,
            f"source manifests: {tmp_path}/tsconfig.json: it is neither JSON nor a manifest, which says its "
            "apiVersion; it is left out",
        )
    ]


def test_demo_cluster() -> None:
    """As its README says; demo.txt has an object of each kind."""
    objects, sentences = loaded(DEMO)
    assert sentences == []
    expected = Path(__file__).with_name("demo.txt").read_text().splitlines()
    assert [line for line in expected if line not in object_lines(objects)] == []


@asynccontextmanager
async def watching(source: Manifests, listener: Listener) -> AsyncIterator[None]:
    """Watch until the end of the block."""
    task = asyncio.create_task(source.watch(listener.deliver, listener.report, FakeRuntime()))
    yield
    task.cancel()
    await asyncio.wait([task])


def watched(
    path: Path,
    change: Callable[[], None],
    until: Callable[[Listener], bool],
    *,
    notifications: bool = False,
) -> Listener:
    """Load, watch, change the files, and wait for a condition."""
    listener = Listener()
    # Without notifications polling finds the change; with them it would come too late.
    poll_seconds = 3600.0 if notifications else 0.01
    source = Manifests([str(path)], poll_seconds=poll_seconds, notifications=notifications)

    async def run() -> None:
        source.load(listener.deliver, listener.report)
        listener.batches.clear()
        async with watching(source, listener):
            # The start of the notifications is not observable, so the change is repeated until it is seen.
            patience = 0.5 if notifications else 20.0
            while not until(listener):
                change()
                with suppress(TimeoutError):
                    await listener.wait_until(lambda: until(listener), patience)

    asyncio.run(run())
    return listener


def has_batch(listener: Listener) -> bool:
    return bool(listener.batches)


def replace(path: Path, text: str) -> None:
    """Replace a file atomically, as editors do."""
    new = path.with_name(".new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.parametrize(
    "notifications",
    [
        pytest.param(False, id="polling"),
        pytest.param(True, id="notifications", marks=pytest.mark.slow),
    ],
)
def test_a_config_map_is_swapped_by_one_link(tmp_path: Path, notifications: bool) -> None:
    for version, address in (("..1", "10.96.0.1"), ("..2", "10.96.0.2")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.yaml").write_text(service("a", address))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")

    def change() -> None:
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    listener = watched(tmp_path, change, has_batch, notifications=notifications)
    assert listener.batches[0] == ["+ Service default/a ClusterIP 10.96.0.2"]


async def test_an_object_that_is_refused_later_stays_as_it_was(tmp_path: Path) -> None:
    """As `kubectl apply` would leave it; the others change, and one line is said of it."""
    file, listener = tmp_path / "a.yaml", Listener()
    file.write_text(f"{service('a')}---\n{service('b', '10.96.0.8')}")
    source = Manifests([str(file)], poll_seconds=0.01, notifications=False)
    source.load(listener.deliver, listener.report)
    listener.batches.clear()
    async with watching(source, listener):
        for number in (1, 2):
            replace(file, f"{service('a', f'10.96.1.{number}')}---\n{service('b', 'ten')}")
            expected = [f"+ Service default/a ClusterIP 10.96.1.{number}"]
            await listener.wait_until(lambda expected=expected: expected in listener.batches)  # type: ignore[misc]
    assert listener.batches == [
        [f"+ Service default/a ClusterIP 10.96.1.{number}"] for number in (1, 2)
    ]
    assert listener.sentences == [
        (
            logging.ERROR,
            f'{file}:13: Service default/b: spec.clusterIP: "ten" is not an IP address; write one such as 10.96.0.10, '
            "or None for a headless Service",
        ),
        (logging.WARNING, "Service default/b is still served as it was before"),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            "kind: [\n",
            "{path}:2: not YAML: did not find expected node content (column 1); correct the file",
            id="YAML",
        )
    ],
)
async def test_an_invalid_file_blocks_the_reload(tmp_path: Path, text: str, sentence: str) -> None:
    good, broken = tmp_path / "a.yaml", tmp_path / "b.yaml"
    good.write_text(service("a"))
    listener = Listener()
    source = Manifests([str(tmp_path)], poll_seconds=0.01, notifications=False)
    source.load(listener.deliver, listener.report)
    listener.batches.clear()
    broken.write_text(text)
    good.write_text(service("a", "10.96.0.70"))
    async with watching(source, listener):
        await listener.wait_until(lambda: len(listener.sentences) == 2)
        assert listener.batches == []
        replace(broken, service("b", "10.96.0.8"))
        await listener.wait_until(lambda: bool(listener.batches))
    assert listener.sentences == [
        (logging.ERROR, sentence.format(path=broken)),
        (
            logging.WARNING,
            "source manifests: still serving the last valid state until the errors are corrected",
        ),
        (logging.INFO, "source manifests: the errors are corrected; serving the files again"),
    ]
    assert listener.batches == [
        ["+ Service default/a ClusterIP 10.96.0.70", "+ Service default/b ClusterIP 10.96.0.8"]
    ]


def test_a_file_with_objects_that_is_written_anew_is_no_settings(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}')
    source = Manifests([str(tmp_path)])
    source.load(lambda batch: None, lambda level, sentence: None)
    file.write_text('{"api')
    assert not source._read().is_whole


@pytest.mark.parametrize("blank", [b"", b" \n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_file_that_becomes_empty_keeps_the_last_state(tmp_path: Path, blank: bytes) -> None:
    """`kubectl get ... > FILE` truncates the file seconds before it writes it."""
    file = tmp_path / "a.yaml"
    file.write_text(service("a"))

    def cut() -> None:
        file.write_bytes(blank)

    listener = watched(file, cut, lambda listener: bool(listener.sentences))
    assert listener.batches == []
    assert listener.sentences[0] == (
        logging.ERROR,
        f"{file}:1: the file is now empty; write its objects, or delete it to remove them",
    )


async def test_files_of_which_nothing_can_be_read_are_not_in_sync_until_corrected(
    tmp_path: Path,
) -> None:
    file, listener = tmp_path / "a.yaml", Listener()
    source = Manifests([str(file)], poll_seconds=0.01, notifications=False)
    source.load(listener.deliver, listener.report)
    assert listener.batches == [[]]
    async with watching(source, listener):
        replace(file, service("a"))
        await listener.wait_until(lambda: len(listener.batches) == 2)
    assert listener.batches[1][-1] == "Synced"


async def test_without_file_notifications_polling_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(watchfiles, "awatch", refuse)
    (tmp_path / "a.yaml").write_text(service("a"))
    listener = Listener()
    source = Manifests([str(tmp_path)], poll_seconds=0.01)
    source.load(listener.deliver, listener.report)
    listener.batches.clear()
    async with watching(source, listener):
        await listener.wait_until(lambda: bool(listener.sentences))
        replace(tmp_path / "a.yaml", service("a", "10.96.0.70"))
        await listener.wait_until(lambda: bool(listener.batches))
    assert listener.batches == [["+ Service default/a ClusterIP 10.96.0.70"]]
    assert listener.sentences == [
        (
            logging.WARNING,
            "source manifests: file notifications are not available "
            "([Errno 28] inotify watch limit reached); polling every 0.01 seconds",
        )
    ]


# A pod of manifests: its own, or that of a workload, with what NetworkPolicies deny it.


PODS = Path(__file__).with_name("pods.yaml").read_text()
POLICY = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, egress: [{to: [{namespaceSelector: {}}], ports: [{protocol: UDP, port: 53}]}]}
"""


def read(folder: Path, name: str, more: str = "") -> PodReading:
    (folder / "pods.yaml").write_text(PODS + more)
    return read_pod([str(folder)], "shop", name)


def denied(folder: Path, more: str, address: str = "10.96.0.10") -> Mapping[str, str]:
    found = read(folder, "web", more).denied
    assert found is not None
    return {transport: each.sentence for transport, each in found(address).items()}


def test_what_a_network_policy_denies(tmp_path: Path) -> None:
    assert denied(tmp_path, POLICY) == {
        "tcp": "NetworkPolicy shop/web allows port 53 over UDP only to the cluster's DNS"
    }


def test_a_pod_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PodUnreadable) as raised:
        read(tmp_path, "wbe")
    assert str(raised.value) == 'the source has no pod shop/wbe; did you mean "shop/web"?'


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has been removed since the folder was listed."""
    monkeypatch.setattr(manifests, "manifest_paths", lambda paths: [f"{tmp_path}/gone.yaml"])
    with pytest.raises(PodUnreadable) as raised:
        read_pod([str(tmp_path)], "shop", "web")
    assert str(raised.value) == f"{tmp_path}/gone.yaml: cannot be read: No such file or directory"


OPENSHIFT = Path(__file__).with_name("openshift.yaml").read_text()


def test_the_port_of_openshift(tmp_path: Path) -> None:
    far = POLICY.replace("port: 53}", "port: 5353}, {port: 5353}")
    assert denied(tmp_path, OPENSHIFT + far) == {}
    near = POLICY.replace("port: 53}", "port: 53}, {port: 53}")
    assert denied(tmp_path, OPENSHIFT + near) == dict.fromkeys(
        ("udp", "tcp"), "NetworkPolicy shop/web allows no port 5353 to the cluster's DNS"
    )
