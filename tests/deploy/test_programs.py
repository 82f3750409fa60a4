"""Scripts that run kubectl, kind and docker, which are scripts that note their calls; and the unit of systemd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from hsdns import __version__
from hsdns.cli.command import parse_flags
from hsdns.cli.coredns import Coredns
from tests.support.tables import columns

ROOT = Path(__file__).resolve().parents[2]
TRY = ROOT / "deploy/kind/try"
PLUGIN = ROOT / "deploy/kubectl/kubectl-hsdns"
UNIT = ROOT / "deploy/systemd/hsdns.service"
FAKES = Path(__file__).with_name("fakes")  # programs in place of kind, kubectl and docker
TABLE = Path(__file__).with_name("programs.txt")
IMAGE = f"ghcr.io/hsdns/hsdns:{__version__}"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
]


class Outcome(NamedTuple):
    """How a script ended; `calls` are those of the programs."""

    status: int
    out: str
    err: str
    calls: list[str]


def run(folder: Path, script: Path, *words: str, path: str = "", **environ: str) -> Outcome:
    calls = folder / "calls"
    calls.write_text("")
    done = subprocess.run(
        ["/bin/sh", str(script), *words] if script == PLUGIN else [str(script), *words],
        env={"CALLS": str(calls), "PATH": path or f"{folder}:/usr/bin:/bin", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return Outcome(done.returncode, done.stdout, done.stderr, calls.read_text().splitlines())


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", [TRY, PLUGIN], ids=lambda path: path.name)
def test_shellcheck(script: Path) -> None:
    subprocess.run(["shellcheck", str(script)], check=True, timeout=30)


# --- deploy/kind/try ---

# Takes the place of kind, kubectl and docker: fails for calls that contain FAIL, prints what the script reads.
FAKE = (FAKES / "kind").read_text()


@pytest.fixture
def kind(tmp_path: Path) -> Path:
    """A folder for PATH with the fake programs and the system's programs that the script uses."""
    for name in ("kind", "kubectl", "docker"):
        program(tmp_path, name, FAKE)
    for name in ("bash", "env", "dirname", "sed", "grep", "mktemp", "rm"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    return tmp_path


def run_try(folder: Path, *words: str, **environ: str) -> Outcome:
    given = {"FAIL": "", "REASON": "", "CLUSTERS": "hsdns\n", "TMPDIR": str(folder), **environ}
    return run(folder, TRY, *words, path=str(folder), **given)


def positions(calls: list[str], *parts: str) -> list[int]:
    """The positions of the calls that contain these parts; StopIteration if one is missing."""
    return [next(at for at, call in enumerate(calls) if part in call) for part in parts]


def test_full_run(kind: Path) -> None:
    found = run_try(kind, CLUSTERS="")
    assert found.status == 0, found.err
    order = positions(
        found.calls,
        f"kind create cluster --config {ROOT}/deploy/kind/config.yaml",
        f"docker build -t {IMAGE} {ROOT}",
        f"kind load docker-image --name hsdns {IMAGE}",
        f"kubectl --context kind-hsdns -n kube-system set image deployment/coredns coredns={IMAGE}",
        "rollout status deployment coredns",
        "exec hsdns-try -- hsdns lookup kubernetes.default.svc.cluster.local a",
        "exec hsdns-try -- hsdns lookup _https._tcp.kubernetes.default.svc.cluster.local srv",
        "exec hsdns-try -- hsdns lookup 10.96.0.1 ptr",
        "exec hsdns-try -- hsdns lookup example.org a",
        "delete pod hsdns-try --ignore-not-found --wait=false",
        "kind delete cluster --name hsdns",
    )
    assert order == sorted(order)
    assert "answered by hsdns-0.0.0" in found.out + found.err
    assert yaml.safe_load((ROOT / "deploy/kind/config.yaml").read_text())["name"] == "hsdns"


def test_an_existing_image_and_cluster_are_used(kind: Path) -> None:
    found = run_try(kind, CLUSTERS="mine\n", CLUSTER="mine", IMAGE="ghcr.io/hsdns/hsdns:edge")
    assert found.status == 0, found.err
    assert not [call for call in found.calls if "build" in call or "create cluster" in call]
    positions(
        found.calls,
        "kind load docker-image --name mine ghcr.io/hsdns/hsdns:edge",
        "--context kind-mine",
    )
    assert "set image deployment/coredns coredns=coredns/coredns:v1.14.7" in found.calls[-2]
    assert "delete pod hsdns-try" in run_try(kind, "keep").calls[-1]


@pytest.mark.parametrize(("given", "expected"), columns(TABLE, "try"))
def test_failures_are_explained(kind: Path, given: str, expected: str) -> None:
    environ = dict(each.split("=", 1) for each in given.split(", "))
    found = run_try(kind, **environ)
    assert found.status == int("lookup example.org" not in given)
    assert expected in found.out + found.err
    if any("set image" in call for call in found.calls):  # and undoes what it did
        assert "set image deployment/coredns coredns=coredns/coredns:v1.14.7" in "".join(
            found.calls[-2:]
        )


def test_other_words(kind: Path) -> None:
    positions(run_try(kind, "undo").calls, "rollout undo deployment coredns")
    assert run_try(kind, "delete").calls[-1] == "kind delete cluster --name hsdns"
    found = run_try(kind, "help")
    assert (found.status, found.calls) == (2, [])
    assert "deploy/kind/try undo" in found.out + found.err
    (kind / "kubectl").unlink()
    found = run_try(kind)
    assert (found.status, found.out + found.err) == (
        1,
        "try: kubectl is not on PATH; install it and try again\n",
    )


# --- kubectl hsdns ---

KNOWN = {
    "CURRENT": "kind-lab",
    "CONTEXTS": "kind-lab\\nprod\\n",
    "PODS": "dns-1 coredns\\n",
    "PODS_STATUS": "0",
    "FOUND": "Usage: hsdns explain NAME [TYPE] [FLAG...]",
    "STATUS": "1",
}


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    """A folder for the PATH, with the script."""
    program(tmp_path, "kubectl", (FAKES / "kubectl").read_text())
    return tmp_path


def plugin(folder: Path, *words: str, **changes: str) -> Outcome:
    return run(folder, PLUGIN, *words, **{**KNOWN, **changes})


def words_of(call: str) -> list[str]:
    return call.rstrip("|").split("|")


def asked(found: Outcome) -> list[str]:
    """What the last kubectl ran in a pod."""
    last = words_of(found.calls[-1])
    return last[last.index("--") + 1 :]


def test_a_command_is_run_in_the_pod_and_its_status_is_kept(bin_: Path) -> None:
    found = plugin(bin_, "explain", "a.shop.svc.cluster.local", "AAAA", "-o", "json")
    assert found[:3] == (1, "NXDOMAIN: no such Service\n", "")
    pods, *runs = map(words_of, found.calls[1:])
    assert pods[:-1] == ["get", "pods", "-n", "kube-system", "-l", "k8s-app in (kube-dns,hsdns)", "--field-selector=status.phase=Running", "-o"]  # fmt: skip
    into = ["exec", "-n", "kube-system", "dns-1", "-c", "coredns", "--", "/coredns", "explain"]
    assert runs == [[*into, "-h"], [*into, "a.shop.svc.cluster.local", "AAAA", "-o", "json"]]
    assert plugin(bin_, "explain", "a", STATUS="0").status == 0


@pytest.mark.parametrize(
    ("flag", "word"), [("-from", "pod/db-0"), ("--from", "po/db-0"), ("-from", "shop/db-0")]
)
def test_the_pod_that_asks(flag: str, word: str, bin_: Path) -> None:
    """It is named as hsdns names it, and what follows it is as elsewhere."""
    found = plugin(bin_, "explain", flag, word, "svc/web", "-ndots", "1")
    assert asked(found)[1:] == ["explain", flag, "shop/db-0", "web.shop.svc.cluster.local", "-ndots", "1"]  # fmt: skip


def test_options_choose_the_cluster_and_the_pod(bin_: Path) -> None:
    given = ("--context=prod", "--kubeconfig", "my config", "--dns-namespace", "dns", "--pod", "dns-9")  # fmt: skip
    found = plugin(bin_, *given, "explain", "a")
    calls = [*map(words_of, found.calls)]
    assert all(call[:2] == ["--kubeconfig=my config", "--context=prod"] for call in calls)
    assert calls[-1][2:8] == ["exec", "-n", "dns", "dns-9", "-c", "coredns"]
    found = plugin(bin_, "--selector", "app=x", "explain", "a", PODS="dns-1 sidecar hsdns\\n")
    assert "|app=x|" in found.calls[1]
    assert words_of(found.calls[-1])[3:6] == ["dns-1", "-c", "hsdns"]
    found = plugin(bin_, "explain", "a", PODS="dns-1 dns other\\ndns-2 dns\\n")
    assert words_of(found.calls[-1])[3:6] == ["dns-1", "-c", "dns"]
    assert found.err == "asking pod dns-1, one of 2; --pod NAME asks another\n"
    found = plugin(bin_, "--domain", "corp.example.", "explain", "service/web")
    assert asked(found)[-1] == "web.shop.svc.corp.example"
    found = plugin(bin_, "fault", "import", "-", FOUND="Usage: hsdns fault add RULE")
    assert words_of(found.calls[-1])[:3] == ["exec", "-i", "-n"]


@pytest.mark.parametrize(("word", "expected"), columns(TABLE, "names"))
def test_objects_become_names(bin_: Path, word: str, expected: str) -> None:
    assert asked(plugin(bin_, "-n", "shop", "explain", word, "SRV"))[2:] == [expected, "SRV"]


@pytest.mark.parametrize(("given", "expected"), columns(TABLE, "refused"))
def test_sentences(bin_: Path, given: str, expected: str) -> None:
    words, _, change = given.partition("  ")
    name, _, value = change.partition("=")
    found = plugin(bin_, *words.split(), **({name: value} if name else {}))
    assert (found.status, found.out) == (2, "")
    assert found.err.splitlines()[-1] == f"kubectl hsdns: {expected}"


def test_help_fits_a_terminal_and_names_each_option(bin_: Path) -> None:
    found = plugin(bin_, "-h")
    assert (found.status, found.err, found.calls) == (0, "", [])
    assert max(map(len, found.out.splitlines())) <= 80
    options = re.findall(r"^ {8}(--?[a-z-]+(?: \| --?[a-z-]+)*)\) [a-z_]+=", PLUGIN.read_text(), re.M)  # fmt: skip
    words = {word for option in options for word in option.split(" | ")}
    assert words == set(re.findall(r"(?<=[ ,])--?[a-z][a-z-]*(?= [A-Z])|(?<=  )-n(?=,)", found.out))


KINDS = {"services": "service", "pods": "pod", "statefulsets": "statefulset"}


@pytest.mark.parametrize("scope", KINDS)
def test_what_the_key_of_k9s_runs(tmp_path: Path, scope: str) -> None:
    """With the variables replaced as k9s does: before the shell sees them."""
    plugins = yaml.safe_load((ROOT / "deploy/k9s/plugins.yaml").read_text())["plugins"].values()
    assert [each["scopes"] for each in plugins] == [[kind] for kind in KINDS]
    (found,) = (each for each in plugins if each["scopes"] == [scope])
    # What k9s demands of a plugin, and knows.
    assert found.keys() == {"shortCut", "description", "scopes", "command", "background", "args"}
    values = {"CONTEXT": "arn:aws:eks:a/b", "NAMESPACE": "shop", "NAME": "db"}
    program(tmp_path, "kubectl", '#!/bin/sh\nprintf "%s|" "$@"\n')
    program(tmp_path, "less", "#!/bin/sh\nexec cat\n")
    words = [re.sub(r"\$([A-Z]+)", lambda name: values[name[1]], arg) for arg in found["args"]]
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [found["command"], *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert words_of(done.stdout) == [
        "hsdns", "--context", "arn:aws:eks:a/b", "-n", "shop", "explain", f"{KINDS[scope]}/db",
    ]  # fmt: skip


# --- systemd ---


def test_unit() -> None:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#"]
    found = dict(line.split("=", 1) for line in lines)
    name, *words = found["ExecStart"].split()
    assert name == "/usr/bin/hsdns"
    assert parse_flags(words, Coredns.flags()) == {"conf": "/etc/hsdns/Corefile"}
    assert found["ExecReload"] == "/bin/kill -USR1 $MAINPID"
    assert found["AmbientCapabilities"] == found["CapabilityBoundingSet"] == "CAP_NET_BIND_SERVICE"
    # Addresses of interfaces are asked for over netlink, and NOTIFY_SOCKET is a Unix socket.
    assert set(found["RestrictAddressFamilies"].split()) == {"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"}  # fmt: skip


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_takes_it(tmp_path: Path) -> None:
    """With a program that exists, since systemd looks for it."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/bin/hsdns", sys.executable))
    for words in (
        ["verify", "--man=no", "--recursive-errors=no"],
        ["security", "--offline=true", "--threshold=20", "--no-pager"],  # tenths; 20 and less is OK
    ):
        command = ["systemd-analyze", *words, str(copy)]
        found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        if "unrecognized option" in found.stderr:
            pytest.skip(f"this systemd-analyze is too old: {found.stderr}")
        assert (found.returncode, found.stderr) == (0, "")
