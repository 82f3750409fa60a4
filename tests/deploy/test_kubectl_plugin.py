"""`kubectl hsdns` and the k9s plugin: what is run in which pod, and each sentence where nothing can be run.

kubectl is a script on the PATH that answers from a table and writes down how it was called.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "deploy" / "kubectl" / "kubectl-hsdns"
K9S = ROOT / "deploy" / "k9s" / "plugins.yaml"
FAKE = r"""#!/bin/sh
printf '%s|' "$@" >>"$CALLS"
echo >>"$CALLS"
case "$*" in
    *current-context*) [ -n "$CURRENT" ] && echo "$CURRENT" ;;
    *get-contexts*) printf "$CONTEXTS" ;;
    *"get pods"*) printf "$PODS" ; exit "$PODS_STATUS" ;;
    *"get pod dns-9 "*) printf 'dns-9 coredns' ;;
    *"get service "*) printf 'web shop' ;;
    *"get statefulset db "*) printf 'peers shop' ;;
    *"get statefulset "*) printf ' shop' ;;
    *"get pod db-0 "*metadata.namespace}/*) printf 'shop/db-0' ;;
    *"get pod db-0 "*) printf 'db-0,peers,10.1.2.3,shop' ;;
    *"get pod web-x "*) printf ',,10.1.2.3,shop' ;;
    *"get pod web-6 "*) printf 'web-6,,fd00::7,shop' ;;
    *"get pod new "*) printf ',,,shop' ;;
    *get*) echo "Error from server (NotFound)" >&2; exit 1 ;;
    *" -h"*) printf "$FOUND" ;;
    *exec*) echo "NXDOMAIN: no such Service"; exit "$STATUS" ;;
esac
"""
KNOWN = {
    "CURRENT": "kind-lab",
    "CONTEXTS": "kind-lab\\nprod\\n",
    "PODS": "dns-1 coredns\\n",
    "PODS_STATUS": "0",
    "FOUND": "Usage: hsdns explain NAME [TYPE] [FLAG...]",
    "STATUS": "1",
}


class Outcome(NamedTuple):
    """How the plugin ended; `calls` are the arguments of each kubectl."""

    status: int
    out: str
    err: str
    calls: list[list[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for the PATH, with the script."""
    found = tmp_path / "bin"
    found.mkdir()
    fake = found / "kubectl"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    return found


def run(folder: Path, *words: str, path: str | None = None, **changes: str) -> Outcome:
    """Run the plugin."""
    calls = folder.parent / "calls"
    calls.write_text("")
    done = subprocess.run(
        ["/bin/sh", str(PLUGIN), *words],
        env={**KNOWN, **changes, "CALLS": str(calls), "PATH": path or f"{folder}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    made = [line.rstrip("|").split("|") for line in calls.read_text().splitlines()]
    return Outcome(done.returncode, done.stdout, done.stderr, made)


def asked(found: Outcome) -> list[str]:
    """What the last kubectl ran in a pod."""
    last = found.calls[-1]
    return last[last.index("--") + 1 :]


def test_a_command_is_run_in_the_pod_and_its_status_is_kept(folder: Path) -> None:
    found = run(folder, "explain", "a.shop.svc.cluster.local", "AAAA", "-o", "json")
    assert found[:3] == (1, "NXDOMAIN: no such Service\n", "")
    assert found.calls[1:] == [
        ["get", "pods", "-n", "kube-system", "-l", "k8s-app in (kube-dns,hsdns)", "--field-selector=status.phase=Running", "-o", found.calls[1][-1]],
        ["exec", "-n", "kube-system", "dns-1", "-c", "coredns", "--", "/coredns", "explain", "-h"],
        ["exec", "-n", "kube-system", "dns-1", "-c", "coredns", "--", "/coredns", "explain", "a.shop.svc.cluster.local", "AAAA", "-o", "json"],
    ]  # fmt: skip
    assert run(folder, "explain", "a", STATUS="0").status == 0


@pytest.mark.parametrize("flag", ["-from", "--from"])
@pytest.mark.parametrize("word", ["pod/db-0", "po/db-0", "shop/db-0"])
def test_the_pod_that_asks(flag: str, word: str, folder: Path) -> None:
    """It is named as hsdns names it, and what follows it is as elsewhere."""
    found = run(folder, "explain", flag, word, "svc/web", "-ndots", "1")
    expected = ["/coredns", "explain", flag, "shop/db-0", "web.shop.svc.cluster.local", "-ndots", "1"]  # fmt: skip
    assert asked(found) == expected
    found = run(folder, "-n", "shop", "explain", "db", flag, "pod/none")
    assert (found.status, found.out) == (2, "")
    assert "cannot read pod none in namespace shop" in found.err


def test_options_choose_the_cluster_and_the_pod(folder: Path) -> None:
    words = (
        "--context=prod",
        "--kubeconfig",
        "my config",
        "--dns-namespace",
        "dns",
        "--pod",
        "dns-9",
    )
    found = run(folder, *words, "explain", "a")
    cluster = ["--kubeconfig=my config", "--context=prod"]
    assert all(call[:2] == cluster for call in found.calls)
    assert found.calls[-1][2:8] == ["exec", "-n", "dns", "dns-9", "-c", "coredns"]
    found = run(folder, "--selector", "app=x", "explain", "a", PODS="dns-1 sidecar hsdns\\n")
    assert "app=x" in found.calls[1]
    assert found.calls[-1][3:6] == ["dns-1", "-c", "hsdns"]
    found = run(folder, "explain", "a", PODS="dns-1 dns other\\ndns-2 dns\\n")
    assert found.calls[-1][3:6] == ["dns-1", "-c", "dns"]
    assert found.err == "asking pod dns-1, one of 2; --pod NAME asks another\n"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("service/web", "web.shop.svc.cluster.local"),
        ("svc/web", "web.shop.svc.cluster.local"),
        ("statefulset/db", "peers.shop.svc.cluster.local"),
        ("pod/db-0", "db-0.peers.shop.svc.cluster.local"),
        ("pod/web-x", "10-1-2-3.shop.pod.cluster.local"),
        ("po/web-6", "fd00--7.shop.pod.cluster.local"),
        ("0/25.2.0.192.in-addr.arpa", "0/25.2.0.192.in-addr.arpa"),
        ("service/", "service/"),
        ("two words", "two words"),
    ],
)
def test_objects_become_names(folder: Path, word: str, expected: str) -> None:
    assert asked(run(folder, "-n", "shop", "explain", word, "SRV"))[2:] == [expected, "SRV"]


def test_the_domain_of_a_cluster(folder: Path) -> None:
    found = run(folder, "--domain", "corp.example.", "explain", "service/web")
    assert asked(found)[-1] == "web.shop.svc.corp.example"


@pytest.mark.parametrize(
    ("words", "changes", "expected"),
    [
        pytest.param(("--pod",), {}, "--pod needs a value; kubectl hsdns -h shows the options", id="value"),
        pytest.param(("--what=1", "explain"), {}, "there is no option --what; kubectl hsdns -h shows the options", id="option"),
        pytest.param(("-x", "explain"), {}, "there is no option -x before the command; kubectl hsdns -h shows the options", id="letter"),
        pytest.param(("explain", "a"), {"CURRENT": ""}, "the kubeconfig has no current context; name one with --context: kind-lab prod", id="contexts"),
        pytest.param(("explain", "a"), {"PODS": ""}, "no pod with labels k8s-app in (kube-dns,hsdns) runs in namespace kube-system; --selector, --dns-namespace and --context choose others", id="no pod"),
        pytest.param(("explain", "a"), {"PODS_STATUS": "1"}, "cannot list the pods in namespace kube-system; --context chooses another cluster: kind-lab prod", id="denied"),
        pytest.param(("--context", "prod", "--pod", "gone", "explain", "a"), {}, "there is no pod gone in namespace kube-system of context prod that can be read", id="gone"),
        pytest.param(("explain", "pod/gone"), {}, "cannot read pod gone; -n NAME names another namespace", id="no object"),
        pytest.param(("-n", "shop", "explain", "pod/gone"), {}, "cannot read pod gone in namespace shop; -n NAME names another namespace", id="not there"),
        pytest.param(("explain", "sts/alone"), {}, "StatefulSet alone has no serviceName, so its pods have no names", id="serviceName"),
        pytest.param(("explain", "pod/new"), {}, "pod new has neither hostname and subdomain nor an address yet, so it has no name", id="new pod"),
        pytest.param(("top",), {"FOUND": 'unexpected word "top"; flags begin with a dash'}, "the hsdns in pod dns-1 has no command top: it is another version than this plugin is for", id="older"),
        pytest.param(("explain", "a"), {"FOUND": "extra command line arguments: [explain -h]"}, "pod dns-1 runs CoreDNS, which has no command explain; --pod names another pod", id="CoreDNS"),
        pytest.param(("explain", "a"), {"FOUND": "x\\nerror: forbidden\\n"}, "cannot run hsdns in pod dns-1: error: forbidden", id="exec"),
    ],
)  # fmt: skip
def test_sentences(
    folder: Path, words: tuple[str, ...], changes: dict[str, str], expected: str
) -> None:
    found = run(folder, *words, **changes)
    assert (found.status, found.out) == (2, "")
    assert found.err.splitlines()[-1] == f"kubectl hsdns: {expected}"


def test_without_kubectl(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cat", "paste", "sed", "wc"):
        (tools / name).symlink_to(str(shutil.which(name)))
    found = run(tools, "explain", "a", path=str(tools))
    assert (found.status, found.err) == (
        2,
        "kubectl hsdns: kubectl is not on the PATH; install it\n",
    )


def test_help_fits_a_terminal_and_names_each_option(folder: Path) -> None:
    found = run(folder, "-h")
    assert (found.status, found.err, found.calls) == (0, "", [])
    assert max(map(len, found.out.splitlines())) <= 80
    options = re.findall(
        r"^ {8}(--?[a-z-]+(?: \| --?[a-z-]+)*)\) [a-z_]+=", PLUGIN.read_text(), re.MULTILINE
    )
    words = {word for option in options for word in option.split(" | ")}
    assert words == set(re.findall(r"(?<=[ ,])--?[a-z][a-z-]*(?= [A-Z])|(?<=  )-n(?=,)", found.out))
    nothing = run(folder)
    assert (nothing.status, nothing.out, nothing.err) == (2, "", found.out)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck() -> None:
    assert subprocess.run(["shellcheck", str(PLUGIN)], check=False).returncode == 0


KINDS = {"services": "service", "pods": "pod", "statefulsets": "statefulset"}


def test_k9s_has_a_key_for_each_kind() -> None:
    plugins = yaml.safe_load(K9S.read_text())["plugins"]
    assert [scope for each in plugins.values() for scope in each["scopes"]] == list(KINDS)
    for each in plugins.values():
        # What k9s demands of a plugin, and knows.
        assert each.keys() == {"shortCut", "description", "scopes", "command", "background", "args"}


@pytest.mark.parametrize("scope", KINDS)
def test_what_the_key_runs(folder: Path, scope: str) -> None:
    """With the variables replaced as k9s does: before the shell sees them."""
    (plugin,) = (
        each
        for each in yaml.safe_load(K9S.read_text())["plugins"].values()
        if each["scopes"] == [scope]
    )
    values = {"CONTEXT": "arn:aws:eks:a/b", "NAMESPACE": "shop", "NAME": "db"}
    (folder / "kubectl").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (folder / "less").write_text("#!/bin/sh\nexec cat\n")
    (folder / "less").chmod(0o755)
    words = [re.sub(r"\$([A-Z]+)", lambda found: values[found[1]], arg) for arg in plugin["args"]]
    done = subprocess.run(
        [plugin["command"], *words],
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("|")[:-1] == [
        "hsdns", "--context", "arn:aws:eks:a/b", "-n", "shop", "explain", f"{KINDS[scope]}/db",
    ]  # fmt: skip
