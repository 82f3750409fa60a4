"""Asking from a Pod: which container kubectl adds, what is read of it, and each sentence where that fails.

kubectl is a script on the PATH that answers from files and writes down how it was called.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns.doctor import cli as doctor_pod
from hsdns.doctor.cli import IMAGE, NotAsked, PodView

FAKE = Path(__file__).with_name("fake_kubectl.sh").read_text()
ROOT = Path(__file__).resolve().parents[2]
VIEW = PodView("shop", "web-0", IMAGE, ("config", "lab"))
SAID = [{"host": "10.96.0.10", "port": 53, "answers": [], "silence": "", "refused": False}]
POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "web-0", "resourceVersion": "7"},
    "spec": {"containers": [{"name": "web"}]},
    "status": {"phase": "Running"},
}


def ended(state: dict[str, Any]) -> dict[str, Any]:
    """The Pod with the container in a state."""
    statuses = [{"name": "debugger", "state": {}}, {"name": "CONTAINER", "state": state}]
    return {**POD, "status": {"phase": "Running", "ephemeralContainerStatuses": statuses}}


DONE = ended({"terminated": {"exitCode": 0}})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setenv("SAID", json.dumps(SAID))
    for name in ("GET_FAILS", "REPLACE_FAILS", "LOGS_FAILS"):
        monkeypatch.setenv(name, "")
    answer(tmp_path, POD, DONE)
    return tmp_path


def answer(folder: Path, first: object, last: object) -> None:
    """What kubectl get prints at the first look, and at the others; nothing for "", which fails."""
    for name, value in (("get-1", first), ("get-last", last)):
        (folder / name).write_text(json.dumps(value) if value else "")


def test_a_container_of_hsdns_asks(folder: Path) -> None:
    assert VIEW.ask(["db.shop./A", "db.shop./AAAA"]) == SAID
    name = (folder / "container").read_text().strip()
    calls = (folder / "calls").read_text().splitlines()
    get = "--kubeconfig=config --context=lab get pod web-0 --namespace shop -o json"
    path = "/api/v1/namespaces/shop/pods/web-0/ephemeralcontainers"
    assert calls == [
        get,
        f"--kubeconfig=config --context=lab replace --raw {path} -f -",
        get,
        f"--kubeconfig=config --context=lab logs web-0 --namespace shop -c {name}",
    ]
    (container,) = json.loads((folder / "pod").read_text())["spec"]["ephemeralContainers"]
    assert (container["name"], container["image"]) == (name, IMAGE)
    assert container["args"] == ["ask", "db.shop./A", "db.shop./AAAA"]
    assert container["securityContext"]["runAsNonRoot"] is True


def test_the_rest_of_the_pod_stays_as_it_is(folder: Path) -> None:
    other = {"name": "debugger", "image": "busybox"}
    answer(folder, {**POD, "spec": {**POD["spec"], "ephemeralContainers": [other]}}, DONE)
    VIEW._replace(servers=["192.0.2.1", "192.0.2.2:7"], access=("", "")).ask(["db/A"])
    pod = json.loads((folder / "pod").read_text())
    first, second = pod["spec"].pop("ephemeralContainers")
    assert (first, pod) == (other, POD)
    assert second["args"][2:] == ["--server", "192.0.2.1", "192.0.2.2:7"]


def test_the_role_of_the_manifest_allows_what_kubectl_does() -> None:
    """GET of the Pod and of its log, PUT of its ephemeral containers."""
    (role,) = yaml.safe_load_all(
        (ROOT / "deploy" / "doctor" / "from-pod" / "rbac.yaml").read_text()
    )
    rights = {(each, verb) for rule in role["rules"] for each in rule["resources"] for verb in rule["verbs"]}  # fmt: skip
    assert rights == {("pods", "get"), ("pods/log", "get"), ("pods/ephemeralcontainers", "update")}


FORBIDDEN = (
    'Error from server (Forbidden): User "dev" cannot update resource "pods/ephemeralcontainers"'
)
RIGHT = f"a permission is missing to query from Pod shop/web-0: {FORBIDDEN.removeprefix('Error from server ')}; deploy/doctor/from-pod has the rights"


@pytest.mark.parametrize(
    ("looks", "setting", "sentence"),
    [
        ((POD, DONE), {"PATH": "/none"}, "kubectl is not on PATH; install it, or run hsdns doctor in the Pod"),
        (("", ""), {"GET_FAILS": 'Error from server (NotFound): pods "web-0" not found'}, "there is no Pod shop/web-0; name one that runs"),
        (("", ""), {"GET_FAILS": "error: the server is away"}, "kubectl get failed, for Pod shop/web-0: error: the server is away"),
        (("", ""), {}, "kubectl get failed, for Pod shop/web-0: it does not say why"),
        ((POD, DONE), {"REPLACE_FAILS": FORBIDDEN}, RIGHT),
        ((POD, ""), {"GET_FAILS": "Error from server (NotFound): gone"}, "there is no Pod shop/web-0; name one that runs"),
        ((POD, DONE), {"LOGS_FAILS": "Error from server: no route to the node"}, "kubectl logs failed, for Pod shop/web-0: Error from server: no route to the node"),
        ((POD, DONE), {"SAID": "Usage: sh"}, "the container in Pod shop/web-0 did not print JSON of hsdns ask; see --image"),
        (([], DONE), {}, "kubectl get failed, for Pod shop/web-0: it does not say why"),
        ((["x"], DONE), {}, "what kubectl prints of Pod shop/web-0 is no object"),
        (({**POD, "status": {"phase": "Pending"}}, DONE), {}, "Pod shop/web-0 does not run (its phase is Pending); name one that does"),
        (({**POD, "spec": {"os": {"name": "windows"}}}, DONE), {}, "Pod shop/web-0 runs on Windows, and the image is for Linux; name another Pod"),
        (({**POD, "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}}, DONE), {}, "Pod shop/web-0 runs on Windows, and the image is for Linux; name another Pod"),
        ((POD, ended({"waiting": {"reason": "ImagePullBackOff"}})), {}, f"the node of Pod shop/web-0 does not get the image {IMAGE} (ImagePullBackOff); load it there, or name another one with --image"),
        ((POD, ended({"waiting": {"reason": "ErrImagePull"}})), {}, "the container CONTAINER in Pod shop/web-0 has not ended within 60 s (ErrImagePull); see kubectl describe pod"),
        ((POD, POD), {}, "the container CONTAINER in Pod shop/web-0 has not ended within 60 s; see kubectl describe pod"),
        ((POD, ended({"terminated": {"exitCode": 2, "reason": "Error"}})), {}, "the container CONTAINER in Pod shop/web-0 failed with status 2 (Error); see kubectl logs, and --image"),
    ],
)  # fmt: skip
def test_why_nothing_is_asked(
    looks: tuple[object, object],
    setting: dict[str, str],
    sentence: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(folder, *looks)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += 20 * seconds

    with pytest.raises(NotAsked) as caught:
        VIEW.ask(["db/A"], sleep, lambda: now[0])
    file = folder / "container"
    shown = sentence.replace("CONTAINER", file.read_text().strip() if file.exists() else "")
    assert str(caught.value) == shown


def test_a_kubectl_that_hangs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin" / "kubectl").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setattr(doctor_pod, "CALL", 0.05)
    with pytest.raises(NotAsked, match=r"^kubectl get has not ended within 0\.05 s$"):
        VIEW.ask(["db/A"])


def test_a_kubectl_that_cannot_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder / "bin"))
    (folder / "bin" / "kubectl").write_text("#!/none\n")
    with pytest.raises(NotAsked, match=r"^kubectl could not be started: "):
        VIEW.ask(["db/A"])
