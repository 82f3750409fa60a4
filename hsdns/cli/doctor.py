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
from typing import TYPE_CHECKING, Annotated, Any, Final

from hsdns.cli import demo, doctor_pod, istioctl
from hsdns.cli.command import ANY, ReadingCommand, flag
from hsdns.cli.flags import FORMATS, FlagError
from hsdns.cli.output import Progress, complain, say, say_text
from hsdns.cli.rule import LEVEL, PREVIEW
from hsdns.cli.silence_flag import FLAG, read_silences
from hsdns.errors import OperatorError

if TYPE_CHECKING:
    from hsdns.sources.cluster_dump import ClusterDump

BLIND: Final = 2
CLUSTER: Final = "cluster"


class Doctor(ReadingCommand):
    """Reads a cluster or a dump, and shows the diagnosis."""

    name = "doctor"
    forms = "[NAMESPACE[/SERVICE|POD]] [FLAG...]"
    most_words = ANY
    bad = BLIND

    from_: Annotated[
        str | None,
        flag(
            "judge a file: what -save wrote, kubectl get -o json or yaml, or manifests; - is standard input, "
            f"and {demo.WORD} the demo cluster (./{demo.WORD} a file of that name)",
            "FILE",
        ),
    ] = None
    save: Annotated[str | None, flag("write what was read to a file, for -from", "FILE")] = None
    kubeconfig: Annotated[
        str, flag("how to reach the cluster (default: KUBECONFIG, or ~/.kube/config)", "FILE")
    ] = ""
    context: Annotated[
        str, flag("context of the kubeconfig (default: its current one)", "NAME")
    ] = ""
    against: Annotated[
        str | None,
        flag(
            "show how Services differ from those of another context, or of a file as for -from, instead of findings",
            "CONTEXT|FILE",
        ),
    ] = None
    server: Annotated[
        list[str], flag("DNS servers to ask in place of the cluster's own", "ADDRESS...")
    ] = []
    no_ask: Annotated[bool, flag("ask no DNS server")] = False
    recording: Annotated[
        str | None,
        flag("file of hsdns record, for what the search list costs (new rule HS176)", "FILE"),
    ] = None
    from_pod: Annotated[str | None, doctor_pod.FROM_POD] = None
    image: Annotated[str, doctor_pod.IMAGE_FLAG] = doctor_pod.IMAGE
    istioctl: Annotated[bool, istioctl.FLAG] = True
    config: Annotated[str | None, FLAG] = None
    preview: Annotated[bool, PREVIEW] = False
    level: Annotated[str, LEVEL] = "warning"
    o: Annotated[str, flag("format: text (default) or json", "FORMAT", choices=FORMATS)] = "text"

    def run(self) -> int:
        """Diagnose, or compare two clusters."""
        if len(self.words) > 1:
            raise FlagError(
                f'hsdns doctor takes one namespace, Service or Pod, found also "{self.words[1]}"'
            )
        for each in ("kubeconfig", "context", "save", "server", "no-ask", "from-pod", "image"):
            is_used = each == "kubeconfig" and self.against is not None
            if self.from_ is not None and each in self.given and not is_used:
                raise FlagError(
                    f"-{each} is for a cluster that is read, and -from reads a file; leave one of them out"
                )
        if self.from_pod is not None and not self.runs_code:
            raise FlagError("-from-pod runs kubectl, and -no-code nothing; leave one of them out")
        try:
            return self._diagnose() if self.against is None else self._compare()
        except ValueError as error:
            raise OperatorError(str(error)) from None

    @property
    def target(self) -> str:
        """NAMESPACE[/SERVICE|POD], or ""."""
        return "".join(self.words)

    @property
    def namespace(self) -> str:
        """The namespace of the target, or ""."""
        return self.target.partition("/")[0]

    def _diagnose(self) -> int:
        from hsdns.cli.doctor_view import as_json, as_lines
        from hsdns.rules.diagnosis import diagnose
        from hsdns.rules.rule import level_at_least
        from hsdns.sources.cluster_dump import unread_kinds, with_object

        _, patterns = read_silences(self.config)
        recorded = self._recorded()
        name, content = self.read(add=self._asking(recorded))
        if self.from_ is not None and recorded:
            content = with_object(content, recorded)
        lacking = unread_kinds(content)
        found = diagnose(name, content, lacking, self.target, patterns, preview=self.preview)
        shown = [each for each in found.findings if level_at_least(each.level, self.level)]
        mesh = [each for each in found.mesh if level_at_least(each.level, self.level)]
        below = len(found.findings) - len(shown) + len(found.mesh) - len(mesh)
        found = found._replace(findings=shown, mesh=mesh)
        complain(*found.problems)
        if self.o == "json":
            say_text(as_json(found, below))
        else:
            say(*as_lines(found, below, name))
        return BLIND if found.is_blind else 1 if found.findings or found.mesh else 0

    def _compare(self) -> int:
        """Compare two clusters; return the exit status; raise FlagError, OSError or ValueError."""
        from hsdns.cli.doctor_against import Dump, other_side, run_against
        from hsdns.cli.drift_view import check_flags

        of_findings = "level server no-ask from-pod image config preview recording istioctl".split()
        check_flags(self.given, of_findings)
        try:
            kubeconfig = find_kubeconfig(self.kubeconfig)
        except FlagError:
            if self.kubeconfig or self.from_ is None:
                raise
            kubeconfig = ""
        there = other_side(self, kubeconfig)
        return run_against(Dump(*self.read()), Dump(*there.read("against")), self.target, self.o)

    def read(
        self, flag: str = "from", add: Callable[[ClusterDump], None] = lambda dump: None
    ) -> tuple[str, bytes]:
        """The name and the content of the dump; raise FlagError or OSError.

        `add` adds the answers of the DNS servers, and others, to the dump of a cluster.
        """
        path = self.from_
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
        dump = asyncio.run(_collect(self))
        add(dump)
        content = dump.encode()
        if self.save is not None:
            with open(self.save, "wb") as file:
                file.write(content)
        return f"{CLUSTER} {self.context}" if self.context else CLUSTER, content

    def _recorded(self) -> dict[str, Any]:
        """The queries of a recording, as an object for a dump; empty if none is given; raise FlagError."""
        if self.recording is None:
            return {}
        if not self.preview:
            raise FlagError("-recording is for HS176, which is a new rule; add -preview")
        from hsdns.cli.doctor_recording import recorded_queries

        return recorded_queries(self.recording)

    def _asking(self, recorded: dict[str, Any]) -> Callable[[ClusterDump], None]:
        """A function that adds to a dump the answers of the DNS servers and what is recorded; raise FlagError."""
        from hsdns.cli.doctor_servers import add_answers, given_servers

        servers, runs_code = given_servers(self.server), self.runs_code
        if servers and self.no_ask:
            raise FlagError("-server and -no-ask exclude each other; leave one out")
        view = doctor_pod.pod_view(self, ("", ""))

        def add(dump: ClusterDump) -> None:
            access = (find_kubeconfig(self.kubeconfig), self.context)
            own = view._replace(access=access) if view is not None else None
            add_answers(
                dump,
                access,
                self.target,
                servers,
                asks=not self.no_ask,
                view=own,
                runs_code=runs_code,
            )
            add_analysis(dump, access, self.namespace, runs=self.istioctl and runs_code)
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


async def _collect(options: Doctor) -> ClusterDump:
    import logging
    import random
    import time
    from types import SimpleNamespace

    from hsdns.apiserver.transport import Unreachable
    from hsdns.metrics import Registry
    from hsdns.sources.api_access import ApiAccess, ConnectionOptions
    from hsdns.sources.cluster_dump import collect

    namespace = options.namespace
    words = (find_kubeconfig(options.kubeconfig), options.context)
    access = ApiAccess(ConnectionOptions(kubeconfig=words, runs_code=options.runs_code))
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


def find_kubeconfig(given: str = "") -> str:
    """The path of the kubeconfig that kubectl uses; the first of several in KUBECONFIG."""
    path = given or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = path or os.path.expanduser("~/.kube/config")
    if not os.path.isfile(path):
        raise FlagError(
            f"there is no kubeconfig {path}; name one with -kubeconfig, or judge a file with -from"
        )
    return path
