"""What an operator types: lines.txt says which lines of the pages are run, and which are only read."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

from hsdns.cli import SUBCOMMANDS, find_command
from loadtest.ports import free_port
from tests.deploy.rendered import needs_kubectl
from tests.docs.test_examples import ROOT, as_pattern, fences
from tests.support.apiserver.real_api import RealApi, missing_assets
from tests.support.tables import columns, section

TABLE = Path(__file__).with_name("lines.txt")
PROGRAMS = "(?:kubectl|helm|docker|kind|buildah|systemctl)"
BEGIN = re.compile(rf"^(?:\$ )?({PROGRAMS} .*)$", re.MULTILINE)
IN_TEXT = re.compile(rf"`({PROGRAMS}[^`A-Z]* -[\w-]+ [^`A-Z]+)`")  # in a sentence, with a flag
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# In the order of the pages, each once.
LINES = {
    line: f"{place}"
    for page in PAGES
    for place, lines in (
        *((each, BEGIN.findall(each.body.replace("\\\n", ""))) for each in fences(page)),
        (page.name, IN_TEXT.findall(page.read_text().replace("\n", " "))),
    )
    for line in lines
}
RUN = {str(each.values[0]): str(each.values[1]) for each in columns(TABLE, "run")}
PARSED = section(TABLE, "parsed").splitlines()


def row(line: str, among: list[str]) -> str:
    """The words of the table with which a line begins, without the options before them; "" if there are none."""
    plain = re.sub(r" (-n|--context) \S+", "", line)
    return max((each for each in among if f"{plain} ".startswith(f"{each} ")), key=len, default="")


def test_every_line_is_run_or_listed() -> None:
    """Those that no test can run are the list in CONTRIBUTING.md."""
    used = {line: row(line, [*RUN, *PARSED]) for line in LINES}
    assert [LINES[line] for line, words in used.items() if not words] == []
    assert {*RUN, *PARSED} - {*used.values()} == set()
    listed = (ROOT / "CONTRIBUTING.md").read_text().partition("Not run, only read: ")[2]
    assert re.findall(r"`([^`]+)`", listed.partition(".\n")[0]) == PARSED


def read_hsdns(words: list[str]) -> None:
    """Refuse a command that hsdns does not have, or flags that it does not take."""
    name = words.pop(0) if words[0] in SUBCOMMANDS else "coredns"
    find_command(name).parse(words)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_words(line: str) -> None:
    """The programs that are there take the flags, and hsdns its own."""
    command = re.split(r" [|>#] ", line)[0]
    program, *words = shlex.split(command)
    # Where the words of hsdns begin: in a container, or in a pod.
    at = next((at for at, each in enumerate(words) if each == "--" or "/hsdns:" in each), None)
    if words[0] == "hsdns":
        at = next(at for at, each in enumerate(words) if each in SUBCOMMANDS) - 1
    elif program == "systemctl":
        assert (ROOT / f"deploy/systemd/{words[-1]}.service").is_file()
    elif shutil.which(program) and words[0] != "buildx":
        given = words if at is None else words[: at + (words[at] != "--")]
        help_ = [given[0], "--help", *given[1:]] if program == "docker" else [*given, "--help"]
        found = subprocess.run([program, *help_], check=False, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
    if at is not None and words[at + 1 :] not in ([], ["."]) and "set" not in words:
        inner = words[words.index("--") if "--" in words else at :][1:]
        read_hsdns(inner[inner[0] == "hsdns" :])


# --- against an API server ---

MANIFEST = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"ports": [{"port": 80}]},
}
# No controller ends a namespace here, and a helm that was built without flags takes the cluster to be of 1.20.
MORE = {"kubectl delete": "--wait=false", "helm template": "--kube-version 1.33.0"}
HSDNS = f"""#!/bin/sh
[ "$1" != serve ] || {{ shift; set -- names "$@"; }}
PYTHONPATH={ROOT} exec {sys.executable} -m hsdns "$@"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout, with the kustomizations and charts that the pages have as examples; `hsdns serve` ends at once."""
    for name in ("deploy", "loadtest/kubernetes"):
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("testcontainers", "clusterloader2"),
        )
    for name in (".", "overlays/prod", "deploy/overlays/test"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "kustomization.yaml").write_text("resources: [web.yaml]\n")
        (tmp_path / name / "web.yaml").write_text(yaml.safe_dump(MANIFEST))
    for name in ("chart", "charts/web"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / "deploy/helm/hsdns")
    for name in (".venv/bin/hsdns", "bin/hsdns"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(HSDNS)
        (tmp_path / name).chmod(0o755)
    return tmp_path


# --- README.md, in a checkout ---

TYPED = dict(map(attrgetter("values"), columns(TABLE, "README")))
MAKE = f'#!/bin/sh\nexec {shutil.which("make")} -o .venv/run "$@"'  # which installs nothing
KUBECTL = """#!/bin/sh
echo '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.7"}}'"""


def readme() -> Iterator[tuple[str, str]]:
    """Each command line that is typed, and what README or the table has of its output."""
    for fence in fences(PAGES[0]):
        lines = fence.commands if fence.language == "console" else zip(fence.body.splitlines(), repeat(""))  # fmt: skip
        for line, shown in lines:
            expected = TYPED[row(line, [*TYPED])]
            if not expected.startswith("not typed"):
                yield line, shown or (f"...\n...{expected}...\n..." if expected != "-" else "")


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(not (shutil.which("make") and shutil.which("dig")), reason="there is no make, or no dig")  # fmt: skip
@pytest.mark.parametrize("is_clone", [False, pytest.param(True, marks=pytest.mark.night)])
def test_readme(is_clone: bool, tmp_path: Path) -> None:
    """Typed line by line; at night in a clone, where `make serve` installs what it needs."""
    checkout, bin_, port = tmp_path / "checkout", tmp_path / "bin", str(free_port())
    bin_.mkdir()
    if is_clone:
        subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
    else:
        checkout.mkdir()
        for each in ROOT.iterdir():
            (checkout / each.name).symlink_to(each)
        (bin_ / "make").write_text(MAKE)
    (bin_ / "kubectl").write_text(KUBECTL)
    for each in bin_.iterdir():
        each.chmod(0o755)
    port_flag = f"HSDNS_ARGS=-p {port}"
    environ = ["env", f"PATH={bin_}:{os.environ['PATH']}", f"XDG_RUNTIME_DIR={tmp_path}", port_flag]
    with ExitStack() as servers:
        for line, shown in readme():
            if is_server := line.startswith("make"):
                servers.close()  # Ctrl-C
            typed = line.replace("1053", port).replace('HSDNS_ARGS="', f'"{port_flag} ')
            process = subprocess.Popen([*environ, "bash", "-c", f"exec {typed}"], cwd=checkout, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
            servers.enter_context(process)
            if is_server:
                servers.callback(os.killpg, process.pid, signal.SIGINT)
            wanted, printed = as_pattern(shown), ""
            for part in process.stdout or ():
                printed += part
                if is_server and wanted.fullmatch(printed):
                    break
            assert wanted.fullmatch(printed), f"{line}\n{printed}"


def stand_in_for_nodes(api: RealApi) -> None:
    """What the controllers and kubelets would report: all that is wanted is there, and jobs are done."""
    for kind in ("deployments", "jobs"):
        group = "batch" if kind == "jobs" else "apps"
        for found in api.ask("GET", f"/apis/{group}/v1/{kind}")[1]["items"]:
            wanted, metadata = found["spec"].get("replicas", 1), found["metadata"]
            counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
            status = {"observedGeneration": metadata["generation"], **dict.fromkeys(counts, wanted)}
            if kind == "jobs":
                at = "2026-01-02T03:04:05Z"
                both = [
                    {"type": each, "status": "True", "lastTransitionTime": at}
                    for each in ("SuccessCriteriaMet", "Complete")
                ]
                status = {"startTime": at, "completionTime": at, "conditions": both}
            path = f"/apis/{group}/v1/namespaces/{metadata['namespace']}/{kind}/{metadata['name']}/status"
            assert api.ask("PATCH", path, {"status": status})[0] == 200


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "there is an API server")
@needs_kubectl
def test_lines_run(folder: Path) -> None:
    """In the order of the pages, against one API server."""
    wrong = []
    with RealApi() as api:
        environ = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "KUBECONFIG": str(api.access.kubeconfig),
            "HOME": str(folder),
        }

        def check(line: str, expected: str) -> None:
            if line.startswith("helm") and shutil.which("helm") is None:
                return
            number = re.match(r"\[(\d)\] ", expected)
            status, expected = int(number[1]) if number else 0, expected[4 if number else 0 :]
            to = re.search(r" > (\S+)", line)
            command = (
                f"set -o pipefail; {line.partition(' # ')[0]}{f' && cat {to[1]}' if to else ''}"
            )
            for words, more in MORE.items():
                command = command.replace(words, f"{words} {more}")
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=60,
            )
            if done.returncode != status or not re.search(expected, done.stdout):
                wrong.append(
                    f"{LINES.get(line, TABLE.name)} $ {line}\n{done.stdout}[{done.returncode}]"
                )

        for setup, expected in map(attrgetter("values"), columns(TABLE, "before")):
            check(setup, expected)
        for line in LINES:
            if (words := row(line, [*RUN, *PARSED])) in RUN:
                stand_in_for_nodes(api)
                check(line, RUN[words])
        for line, expected in map(attrgetter("values"), columns(TABLE, "then")):
            check(line, expected)
    assert wrong == [], "\n".join(wrong)
