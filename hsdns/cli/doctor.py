"""`hsdns doctor [NAMESPACE[/SERVICE|POD]]`: what makes names fail in a cluster, now or later.

Path: argv -> here -> sources/cluster_dump.py (a cluster) and doctor_servers.py (its DNS), or a file ->
rules/diagnosis.py -> standard output.
Rule 1: the cluster is read once, and the dump is checked: a dump from -save gives the same findings with -from.  The
        answers of the DNS servers are in the dump; with -from no queries are sent.
Rule 2: the exit status is 0 without findings at or over -level, 1 with some, 2 if Services, EndpointSlices or Pods
        could not be read.
Rule 3: nothing is written to the cluster, and no Secret and no environment variable is read.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hsdns.cli import demo, doctor_pod, istioctl
from hsdns.cli.flags import (
    NO_CODE,
    Flag,
    FlagError,
    leading_words,
    output_format,
    parse_flags,
    runs_code,
    usage,
)
from hsdns.cli.output import Progress, complain, say, say_text
from hsdns.cli.rule import PREVIEW
from hsdns.cli.silence_flag import FLAG, read_silences

if TYPE_CHECKING:
    from hsdns.rules.diagnosis import Diagnosis
    from hsdns.sources.cluster_dump import ClusterDump

BLIND: Final = 2
CLUSTER: Final = "cluster"
FLAGS: Final = {
    "from": Flag(
        str,
        "judge a file: what -save wrote, kubectl get -o json or yaml, or manifests; - is standard input, "
        f"and {demo.WORD} the demo cluster (./{demo.WORD} a file of that name)",
        "FILE",
    ),
    "save": Flag(str, "write what was read to a file, for -from", "FILE"),
    "kubeconfig": Flag(
        str, "how to reach the cluster (default: KUBECONFIG, or ~/.kube/config)", "FILE"
    ),
    "context": Flag(str, "context of the kubeconfig (default: its current one)", "NAME"),
    "against": Flag(
        str,
        "show how Services differ from those of another context, or of a file as for -from, instead of findings",
        "CONTEXT|FILE",
    ),
    "server": Flag(list, "DNS servers to ask in place of the cluster's own", "ADDRESS..."),
    "no-ask": Flag(bool, "ask no DNS server"),
    "recording": Flag(
        str, "file of hsdns record, for what the search list costs (new rule HS176)", "FILE"
    ),
    **doctor_pod.FLAGS,
    "istioctl": istioctl.FLAG,
    "config": FLAG,
    "preview": PREVIEW,
    "level": Flag(str, "lowest level that is shown: error, warning (default) or note", "LEVEL"),
    "o": Flag(str, "format: text (default) or json", "FORMAT"),
    **NO_CODE,
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns doctor`; return the exit status."""
    from hsdns.cli.doctor_view import as_json, as_lines
    from hsdns.rules.diagnosis import diagnose
    from hsdns.rules.rule import LEVELS, level_at_least
    from hsdns.sources.cluster_dump import unread_kinds, with_object

    plain, rest = leading_words(words)
    try:
        flags = parse_flags(rest, FLAGS, command="hsdns doctor")
        if flags.get("h"):
            say_text(
                f"Usage: hsdns doctor [NAMESPACE[/SERVICE|POD]] [FLAG...]\n\nFlags:\n{usage(FLAGS)}"
            )
            return 0
        output = output_format(flags)
        level = str(flags.get("level", "warning"))
        if level not in LEVELS:
            raise FlagError(f'-level needs error, warning or note, found "{level}"')
        if len(plain) > 1:
            raise FlagError(
                f'hsdns doctor takes one namespace, Service or Pod, found also "{plain[1]}"'
            )
        target = plain[0] if plain else ""
        for flag in ("kubeconfig", "context", "save", "server", "no-ask", "from-pod", "image"):
            is_used = flag == "kubeconfig" and "against" in flags
            if "from" in flags and flag in flags and not is_used:
                raise FlagError(
                    f"-{flag} is for a cluster that is read, and -from reads a file; leave one of them out"
                )
        if "from-pod" in flags and not runs_code(flags):
            raise FlagError("-from-pod runs kubectl, and -no-code nothing; leave one of them out")
        if "against" in flags:
            return _against(flags, target, output)
        _, patterns = read_silences(flags)
        preview = bool(flags.get("preview"))
        recorded = _recorded(flags)
        name, content = _read(flags, target.partition("/")[0], _asking(flags, target, recorded))
        if "from" in flags and recorded:
            content = with_object(content, recorded)
        found = diagnose(name, content, unread_kinds(content), target, patterns, preview=preview)
    except (FlagError, OSError, ValueError) as error:
        complain(error)
        return BLIND
    shown = [each for each in found.findings if level_at_least(each.level, level)]
    mesh = [each for each in found.mesh if level_at_least(each.level, level)]
    below = len(found.findings) - len(shown) + len(found.mesh) - len(mesh)
    found = found._replace(findings=shown, mesh=mesh)
    complain(*found.problems)
    if output == "json":
        say_text(as_json(found, below))
    else:
        say(*as_lines(found, below, name))
    return _status(found)


def _status(found: Diagnosis) -> int:
    return BLIND if found.is_blind else 1 if found.findings or found.mesh else 0


def _against(flags: dict[str, Any], target: str, output: str) -> int:
    """Compare two clusters; return the exit status; raise FlagError, OSError or ValueError."""
    from hsdns.cli.doctor_against import Dump, other_flags, run_against
    from hsdns.cli.drift_view import check_flags

    check_flags(
        flags,
        (
            "level",
            "server",
            "no-ask",
            "from-pod",
            "image",
            "config",
            "preview",
            "recording",
            "istioctl",
        ),
    )
    try:
        kubeconfig = find_kubeconfig(flags)
    except FlagError:
        if "kubeconfig" in flags or "from" not in flags:
            raise
        kubeconfig = ""
    other = other_flags(flags, kubeconfig)
    namespace = target.partition("/")[0]
    here = Dump(*_read(flags, namespace))
    there = Dump(*_read(other, namespace, flag="against"))
    return run_against(here, there, target, output)


def _read(
    flags: dict[str, Any],
    namespace: str,
    add: Callable[[ClusterDump], None] = lambda dump: None,
    *,
    flag: str = "from",
) -> tuple[str, bytes]:
    """The name and the content of the dump; raise FlagError or OSError.

    `add` adds the answers of the DNS servers, and others, to the dump of a cluster.
    """
    path = flags.get("from")
    if path == "-":
        return "standard input", sys.stdin.buffer.read()
    if path == demo.WORD:
        return "the demo cluster", demo.manifests()
    if path is not None:
        if os.path.isdir(path):
            raise FlagError(
                f"-{flag} {path}: this is a folder; give a file, or use hsdns lint {path}"
            )
        try:
            with open(path, "rb") as file:
                return path, file.read()
        except OSError as error:
            raise FlagError(
                f"-{flag} {path}: it cannot be read: {error.strerror or error}"
            ) from None
    dump = asyncio.run(_collect(flags, namespace))
    add(dump)
    content = dump.encode()
    if "save" in flags:
        with open(flags["save"], "wb") as file:
            file.write(content)
    context = flags.get("context")
    return f"{CLUSTER} {context}" if context else CLUSTER, content


def _recorded(flags: dict[str, Any]) -> dict[str, Any]:
    """The queries of a recording, as an object for a dump; empty if none is given; raise FlagError."""
    if "recording" not in flags:
        return {}
    if not flags.get("preview"):
        raise FlagError("-recording is for HS176, which is a new rule; add -preview")
    from hsdns.cli.doctor_recording import recorded_queries

    return recorded_queries(flags["recording"])


def _asking(
    flags: dict[str, Any], target: str, recorded: dict[str, Any]
) -> Callable[[ClusterDump], None]:
    """A function that adds to a dump the answers of the DNS servers and what is recorded; raise FlagError."""
    from hsdns.cli.doctor_servers import add_answers, given_servers

    servers, asks = given_servers(flags), not flags.get("no-ask")
    if servers and not asks:
        raise FlagError("-server and -no-ask exclude each other; leave one out")
    view = doctor_pod.pod_view(flags, ("", ""))

    def add(dump: ClusterDump) -> None:
        access = (find_kubeconfig(flags), str(flags.get("context", "")))
        own = view._replace(access=access) if view is not None else None
        runs = runs_code(flags)
        add_answers(dump, access, target, servers, asks=asks, view=own, runs_code=runs)
        runs = flags.get("istioctl", True) and runs
        add_analysis(dump, access, target.partition("/")[0], runs=runs)
        if recorded:
            dump.items.append(recorded)

    return add


def add_analysis(dump: ClusterDump, access: tuple[str, str], namespace: str, *, runs: bool) -> None:
    """Add the output of istioctl to a dump, or why there is none, unless there is no mesh.

    `access` are FILE and CONTEXT of a kubeconfig.
    """
    from hsdns.rules.judging import read_files
    from hsdns.rules.mesh import KIND, has_mesh
    from hsdns.sources.cluster_dump import MESH

    content = dump.encode()
    if b"istio" not in content or not has_mesh(read_files([("dump", content)]).objects):
        return
    words = istioctl.of_cluster(*access, namespace)
    try:
        if not runs:
            raise istioctl.NotRun("left out by -istioctl=false")
        messages = json.loads(istioctl.analysis(words))
        if messages is not None and not isinstance(messages, list):
            raise ValueError
    except istioctl.NotRun as error:
        dump.unread[MESH] = str(error)
    except ValueError:
        dump.unread[MESH] = "what istioctl printed is no JSON of istioctl analyze"
    else:
        found = {"apiVersion": "hsdns.io/v1", "kind": KIND, "metadata": {"name": "istioctl"}}
        dump.items.append({**found, "messages": messages or []})


async def _collect(flags: dict[str, Any], namespace: str) -> ClusterDump:
    import logging
    import random
    import time
    from types import SimpleNamespace

    from hsdns.apiserver.transport import Unreachable
    from hsdns.metrics import Registry
    from hsdns.sources.api_access import ApiAccess, ConnectionOptions
    from hsdns.sources.cluster_dump import collect

    kubeconfig = find_kubeconfig(flags)
    words = (kubeconfig, str(flags.get("context", "")))
    access = ApiAccess(ConnectionOptions(kubeconfig=words, runs_code=runs_code(flags)))
    missing = access.check()
    if missing:
        raise FlagError("; ".join(missing))

    def report(level: int, message: str) -> None:
        if level >= logging.WARNING:
            complain(message)

    around: Any = SimpleNamespace(
        random=random.Random(), metrics=Registry(), clock=time.monotonic, wall=time.time
    )
    transport = access(around, report)
    progress = Progress()
    try:
        return await collect(
            transport,
            namespace,
            lambda plural, count: progress.show(f"reading the cluster: {plural}, {count} objects"),
        )
    except Unreachable as error:
        hint = (
            ""
            if namespace or "(403)" not in str(error)
            else "; for rights in one namespace, hsdns doctor NAMESPACE"
        )
        raise FlagError(f"the cluster could not be read: {error}{hint}") from None
    finally:
        progress.show()
        await transport.close()


def find_kubeconfig(flags: dict[str, Any]) -> str:
    """The path of the kubeconfig that kubectl uses; the first of several in KUBECONFIG."""
    import os

    given = str(flags.get("kubeconfig") or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0])
    path = given or os.path.expanduser("~/.kube/config")
    if not os.path.isfile(path):
        raise FlagError(
            f"there is no kubeconfig {path}; name one with -kubeconfig, or judge a file with -from"
        )
    return path
