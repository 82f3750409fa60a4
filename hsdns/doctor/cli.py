"""`hsdns doctor [NAMESPACE[/SERVICE|POD]]`: what makes names fail in a cluster, now or later.

Path: argv -> here -> sources/cluster_dump.py (a cluster) and servers.py (its DNS), or a file ->
rules/diagnosis.py -> standard output.
Rule 1: the cluster is read once, and the dump is checked: a dump from --save gives the same findings with --source.
        The answers of the DNS servers are in the dump; with --source no queries are sent.
Rule 2: the exit status is 0 without findings at or over -level, 1 with some, 2 if Services, EndpointSlices or Pods
        could not be read.
Rule 3: nothing is written to the cluster, and no Secret and no environment variable is read.

The answers of the DNS servers to a Pod: an ephemeral container of hsdns in it sends the queries:
Rule 1: kubectl makes the container, so permissions, proxies and credentials are those of the user.
Rule 2: the container has no privileges except the capability of the image's interpreter, and sends only DNS queries.
Rule 3: every error is a sentence, and does not affect the rest of the report.

The output of `hsdns doctor`: first what fails now, then the rest, what has passed, and what could not be checked.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hsdns import __version__
from hsdns.cli.command import (
    ANY,
    CONTEXT,
    KUBECONFIG,
    OUTPUT,
    Contradiction,
    Flag,
    FlagError,
    Progress,
    ReadingCommand,
    complain,
    flag,
    say_json,
)
from hsdns.cli.source import (
    DEMO,
    SOURCE,
    access_of,
    cluster_text,
    cluster_tokens,
    default_namespace,
    find_kubeconfig,
    options_of,
)
from hsdns.errors import OperatorError
from hsdns.lint import istioctl
from hsdns.lint.rule import FLAG, LEVEL, PREVIEW, read_silences

if TYPE_CHECKING:
    from hsdns.rules.diagnosis import Subject
    from hsdns.rules.judging import Files
    from hsdns.rules.objects import Objects
    from hsdns.sources.cluster_dump import ClusterDump

BLIND: Final = 2
CLUSTER: Final = "cluster"
PROGRAM: Final = "kubectl"
IMAGE: Final = f"ghcr.io/hsdns/hsdns:{__version__}"
LIMIT: Final = 60.0  # seconds from the start of the container to its end
PAUSE: Final = 1.0  # seconds between two checks of it
CALL: Final = 30.0  # seconds for one call of kubectl
USER: Final = 65532  # as in the image
FROM: Final = Flag.of(
    "also query the DNS servers from this pod, in an ephemeral container that kubectl adds",
    "NAMESPACE/POD",
)
IMAGE_FLAG: Final = Flag.of(
    f"image of hsdns for that container (default: {IMAGE})", "IMAGE", name="image"
)
# The kubelet's reasons for an image that it cannot pull and keeps trying to pull.
_NO_IMAGE: Final = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_ROLE: Final = "deploy/doctor/from-pod has the rights"


class Doctor(ReadingCommand):
    """Reads a cluster or a dump, and shows the diagnosis."""

    name = "doctor"
    forms = """hsdns doctor [NAMESPACE[/SERVICE|POD]] [FLAG...]
       hsdns doctor -n NAMESPACE [SERVICE|POD] [FLAG...]"""
    most_words = ANY
    bad = BLIND

    source: list[str] | None = flag(
        None,
        SOURCE,
        help="check files instead of a cluster: manifests PATH..., also of --save or kubectl (- is standard "
        "input), or demo, the demo cluster",
    )
    within: str = flag("", "namespace of the target", "NAMESPACE", name="namespace", alias="n")
    save: str | None = flag(None, "save the objects to a file, for --source manifests", "FILE")
    kubeconfig: str = flag("", KUBECONFIG)
    context: str = flag("", CONTEXT)
    against: str | None = flag(
        None,
        "compare Services with those of another context, or of files as for --source, instead of checking them",
        "CONTEXT|FILE",
    )
    server: list[str] = flag([], "DNS servers to query instead of the cluster's", "ADDRESS...")
    no_ask: bool = flag(False, "do not query DNS servers")
    recording: str | None = flag(
        None, "recording to compute the cost of the search list from (preview rule HS176)", "FILE"
    )
    from_: str | None = flag(None, FROM)
    image: str = flag(IMAGE, IMAGE_FLAG)
    istioctl: bool = flag(True, istioctl.FLAG)
    config: str | None = flag(None, FLAG)
    preview: bool = flag(False, PREVIEW)
    level: str = flag("warning", LEVEL)
    o: str = flag(
        "text",
        OUTPUT,
        help="format: text (default), wide for all findings, or json",
        choices=(*OUTPUT.choices, "wide"),
    )

    def run(self) -> int:
        """Diagnose, or compare two clusters."""
        if len(self.words) > 1:
            raise FlagError(
                f'hsdns doctor takes one namespace, Service or Pod, also found "{self.words[1]}"'
            )
        for each in ("kubeconfig", "context", "save", "server", "no-ask", "from", "image"):
            is_used = each == "kubeconfig" and self.against is not None
            if self.source is not None and each in self.given and not is_used:
                raise FlagError(
                    f"--{each} is for a cluster that is read, and --source reads files; use only one"
                )
        if self.from_ is not None and not self.runs_code:
            raise FlagError("--from runs kubectl, which --no-code forbids; use only one")
        try:
            return self._diagnose() if self.against is None else self._compare()
        except ValueError as error:
            raise OperatorError(str(error)) from None

    @property
    def target(self) -> str:
        """NAMESPACE[/SERVICE|POD], or ""; the word may be svc/SERVICE or pod/POD, or with -n the name alone.

        Raise Contradiction.
        """
        from hsdns.ask.names import KINDS, NAMESPACE

        word = "".join(self.words)
        before, slash, name = word.rpartition("/")
        if self.within and slash and before not in (self.within, *KINDS):
            raise Contradiction(f"-n {self.within} and {word} name two namespaces; use only one")
        within = self.within or (NAMESPACE if before in KINDS else "")
        return "/".join(filter(None, (within, name))) if within else word

    @property
    def namespace(self) -> str:
        """The namespace of the target, or ""."""
        return self.target.partition("/")[0]

    def access(self) -> tuple[str, ...]:
        """FILE and CONTEXT of the kubeconfig, () in a pod without these flags; raise FlagError."""
        return access_of(self.kubeconfig, self.context)

    def _diagnose(self) -> int:
        from hsdns.doctor.report import (
            Screen,
            Shown,
            as_json,
            show_names,
            show_read,
            show_rest,
        )
        from hsdns.rules.diagnosis import diagnose
        from hsdns.rules.names import failing_names, unread_of
        from hsdns.rules.rule import level_at_least
        from hsdns.sources.cluster_dump import QUERIES

        _, patterns = read_silences(self.config)
        recorded = self._recorded()
        is_wide, is_text = self.o == "wide", self.o != "json"
        screen = Screen.of_output(is_wide=is_wide)
        add = self._asking(recorded) if self.source is None else None
        read = self.read()
        subject = read.subject(self.target)
        complain(*subject.problems)
        names = failing_names(subject)
        unread = unread_of(subject, names)
        if is_text:
            show_read(screen, subject, unread, is_file=read.dump is None)
            show_names(screen, names)
        if read.dump is not None and add is not None:
            progress = Progress()
            progress.show("asking the cluster's DNS servers" * (not self.no_ask))
            add(read, read.dump)
            progress.show()
            self._save(read.dump)
        elif recorded:
            read.add(recorded)
            read.lacking.pop(QUERIES, None)
        subject = read.subject(self.target)
        found = diagnose(subject, patterns, preview=self.preview)
        listed = [each for each in found.findings if level_at_least(each.level, self.level)]
        mesh = [each for each in found.mesh if level_at_least(each.level, self.level)]
        below = len(found.findings) - len(listed) + len(found.mesh) - len(mesh)
        found = found._replace(findings=listed, mesh=mesh)
        shown = Shown(names, found, below, read.name)
        if is_text:
            show_rest(screen, shown, is_wide=is_wide)
        else:
            say_json(as_json(shown))
        fails = names.failing or found.findings or found.mesh
        return BLIND if unread or found.problems else 1 if fails else 0

    def _compare(self) -> int:
        """Compare two clusters; return the exit status; raise FlagError, OSError or ValueError."""
        from hsdns.doctor.against import compare_dumps, other_side
        from hsdns.lint.drift import check_flags

        of_findings = "level server no-ask from image config preview recording istioctl".split()
        check_flags(self.given, of_findings)
        try:
            kubeconfig, _ = find_kubeconfig(self.kubeconfig, self.against or "")
        except FlagError:
            if self.kubeconfig or self.source is None:
                raise
            kubeconfig = ""
        there = other_side(self, kubeconfig)
        output = "text" if self.o == "wide" else self.o
        here, away = self.read(), there.read()
        if here.dump is not None:
            self._save(here.dump)
        return compare_dumps(here, away, self.target, output)

    def read(self) -> DumpRead:
        """Read a cluster or files; raise FlagError or OSError."""
        from hsdns.rules.judging import read_dump, read_files
        from hsdns.sources.cluster_dump import FIRST_LINE, NOTE, unread_kinds

        if self.source is not None:
            listed = self._files(self.source)
            content = b"\n".join(each for _, each in listed)
            files = read_files(listed, has_places=False)
            is_cluster = NOTE.encode() in content
            name = listed[0][0] if len(listed) == 1 else " ".join(self.source[1:])
            return DumpRead(name, files, unread_kinds(content), is_cluster=is_cluster)
        dump = asyncio.run(_collect(self))
        name = f"{CLUSTER} {self.context}" if self.context else CLUSTER
        found = DumpRead(name, read_dump(name, dump.items, FIRST_LINE), dump.lacking, dump)
        if self.save is None:
            dump.items.clear()  # they are read, and take as much memory as the rest
        return found

    def _save(self, dump: ClusterDump) -> None:
        if self.save is not None:
            with open(self.save, "wb") as file:
                file.write(dump.encode())

    def _files(self, source: Sequence[str]) -> Sequence[tuple[str, bytes]]:
        """The names and the contents of the files of --source; raise FlagError."""
        from hsdns.cli.source import demo_manifests
        from hsdns.lint.cli import read_paths

        if source == [DEMO]:
            return [("the demo cluster", demo_manifests())]
        if source[0] != "manifests" or not source[1:]:
            found = " ".join(source)
            raise FlagError(
                f'--source of hsdns doctor is manifests PATH... or {DEMO}, found "{found}"'
                + (f"; write --source manifests {found}" if os.path.exists(source[0]) else "")
            )
        listed = read_paths(source[1:])
        for each in listed.problems:
            raise FlagError(f"--source manifests {each}")
        complain(*listed.remarks)
        if not listed.files:
            raise FlagError(f"--source {' '.join(source)}: there is no manifest")
        return listed.files

    def _recorded(self) -> dict[str, Any]:
        """The queries of a recording, as an object for a dump; empty if none is given; raise FlagError."""
        if self.recording is None:
            return {}
        if not self.preview:
            raise FlagError("--recording is for HS176, which is a new rule; add --preview")
        from hsdns.doctor.search_cost import recorded_queries

        return recorded_queries(self.recording)

    def _asking(self, recorded: dict[str, Any]) -> Callable[[DumpRead, ClusterDump], None]:
        """A function that adds to a dump the answers of the DNS servers and what is recorded; raise FlagError."""
        from hsdns.doctor.servers import find_answers, given_servers

        servers, runs_code = given_servers(self.server), self.runs_code
        if servers and self.no_ask:
            raise FlagError("--server and --no-ask cannot be combined; use only one")
        view = pod_view(self)

        def add(read: DumpRead, dump: ClusterDump) -> None:
            access, objects = self.access(), read.files.objects
            own = view._replace(access=access) if view is not None else None
            answers, why = find_answers(
                objects,
                dump.unread,
                access,
                self.target,
                servers,
                asks=not self.no_ask,
                view=own,
                runs_code=runs_code,
            )
            dump.unread |= why
            said, why = find_analysis(
                objects, access, self.namespace, runs=self.istioctl and runs_code
            )
            dump.unread |= why
            added = [*answers, *said, *filter(None, [recorded])]
            dump.add(*added)
            read.add(*added)
            read.lacking = dump.lacking

        return add


class DumpRead:
    """A dump that has been read: its name, its objects, and why others are not in it, by plural.

    `dump` is that of a cluster, not of a file.
    """

    def __init__(
        self,
        name: str,
        files: Files,
        lacking: dict[str, str],
        dump: ClusterDump | None = None,
        *,
        is_cluster: bool = False,
    ) -> None:
        self.name, self.files, self.lacking, self.dump = name, files, lacking, dump
        self._is_cluster = is_cluster or dump is not None

    def subject(self, target: str) -> Subject:
        """What to diagnose; raise ValueError if it has no such target."""
        from hsdns.rules.diagnosis import subject_of

        return subject_of(self.files, self.lacking, target, is_cluster=self._is_cluster)

    def add(self, *objects: Mapping[str, Any]) -> None:
        """Add objects of our own kinds."""
        from msgspec import json as encoding

        from hsdns.rules.judging import read_dump
        from hsdns.rules.objects import Objects

        read = read_dump(self.name, map(encoding.encode, objects), 1)
        old = self.files.objects
        manifests = [*old.manifests, *read.objects.manifests]
        self.files = self.files._replace(objects=Objects(manifests, old.corefiles))


def find_analysis(
    objects: Objects, access: Sequence[str], namespace: str, *, runs: bool
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The output of istioctl as an object of a dump, or why there is none; neither if there is no mesh.

    `access` are FILE and CONTEXT of a kubeconfig.
    """
    from hsdns.rules.mesh import KIND, has_mesh
    from hsdns.sources.cluster_dump import MESH

    if not has_mesh(objects):
        return [], {}
    words = istioctl.of_cluster(options_of(access), namespace)
    try:
        if not runs:
            raise istioctl.NotRun("left out by --istioctl=false")
        messages = json.loads(istioctl.analysis(words))
        if messages is not None and not isinstance(messages, list):
            raise ValueError
    except istioctl.NotRun as error:
        return [], {MESH: str(error)}
    except ValueError:
        return [], {MESH: "what istioctl printed is not the JSON of istioctl analyze"}
    found = {"apiVersion": "hsdns.io/v1", "kind": KIND, "metadata": {"name": "istioctl"}}
    return [{**found, "messages": messages or []}], {}


async def _collect(options: Doctor) -> ClusterDump:
    from hsdns.apiserver.transport import Unreachable
    from hsdns.cli.offline import connect
    from hsdns.sources.cluster_dump import ClusterDump, collect

    namespace, access, progress = options.namespace, options.access(), Progress()
    transport = connect(access, runs_code=options.runs_code)
    if options.given.isdisjoint(("context", "kubeconfig")):
        complain(f"looking at {cluster_text(access)}")

    async def read(namespace: str) -> tuple[ClusterDump, str]:
        dump, why = ClusterDump([], {}), ""
        try:
            dump = await collect(
                transport,
                namespace,
                lambda plural, count: progress.show(
                    f"reading the cluster: {plural}, {count} objects"
                ),
            )
        except Unreachable as error:
            why = str(error)
        return dump, why

    try:
        dump, why = await read(namespace)
        lacking, hint = why or dump.unread.get("services", ""), ""
        if not namespace and "(403)" in lacking:
            hint = "; for rights in one namespace, hsdns doctor NAMESPACE"
            own = default_namespace(cluster_tokens(access))
            part, nothing = await read(own)
            if not nothing and "services" not in part.unread:
                complain(f"{lacking} in the whole cluster, so only namespace {own} is looked at")
                options.within = own
                return part
        if why:
            raise FlagError(f"the cluster could not be read: {why}{hint}")
        return dump
    finally:
        progress.show()
        await transport.close()


Sleep = Callable[[float], None]


class NotAsked(Exception):
    """No query was sent from the Pod; the message is a sentence that says why."""


class PodView(NamedTuple):
    """The Pod to query from; `access` are FILE and CONTEXT of a kubeconfig, `servers` replace its own ones."""

    namespace: str
    name: str
    image: str
    access: Sequence[str]
    servers: Sequence[str] = ()

    def __str__(self) -> str:
        return f"Pod {self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """The path of the Pod's ephemeral containers in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/ephemeralcontainers"

    def ask(
        self,
        questions: Sequence[str],
        sleep: Sleep = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> list[dict[str, Any]]:
        """The output of `hsdns ask` in the Pod; raise NotAsked."""
        import secrets
        import shutil

        from hsdns.rules.objects import mapping_at

        if shutil.which(PROGRAM) is None:
            raise NotAsked(f"{PROGRAM} is not on PATH; install it, or run hsdns doctor in the Pod")
        pod = self._pod()
        phase = mapping_at(pod, "status").get("phase")
        if phase != "Running":
            raise NotAsked(f"{self} does not run (its phase is {phase}); name one that does")
        spec, kubelet = mapping_at(pod, "spec"), "kubernetes.io/os"
        node = mapping_at(spec, "nodeSelector").get(kubelet)
        system = mapping_at(spec, "os").get("name") or node
        if system == "windows":
            raise NotAsked(f"{self} runs on Windows, and the image is for Linux; name another Pod")
        container = f"hsdns-doctor-{secrets.token_hex(4)}"
        spec["ephemeralContainers"] = [
            *(spec.get("ephemeralContainers") or ()),
            self._container(container, questions),
        ]
        self._kubectl("replace", "--raw", self.path, "-f", "-", given=json.dumps(pod).encode())
        self._wait(container, sleep, clock)
        said = self._kubectl("logs", self.name, "--namespace", self.namespace, "-c", container)
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(said, type=list[dict[str, Any]])
        raise NotAsked(f"the container in {self} did not print JSON of hsdns ask; see --image")

    def _pod(self) -> dict[str, Any]:
        text = self._kubectl("get", "pod", self.name, "--namespace", self.namespace, "-o", "json")
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(text, type=dict[str, Any])
        raise NotAsked(f"what {PROGRAM} prints of {self} is no object")

    def _container(self, name: str, questions: Sequence[str]) -> Mapping[str, Any]:
        servers = ["--server", *self.servers] if self.servers else []
        return {
            "name": name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "args": ["ask", *questions, *servers],
            "terminationMessagePolicy": "File",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                "privileged": False,
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "runAsUser": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }

    def _wait(self, container: str, sleep: Sleep, clock: Callable[[], float]) -> None:
        """Wait until the container has ended; raise NotAsked if it does not end, or fails."""
        from hsdns.rules.objects import mapping_at, mappings_at

        deadline, why = clock() + LIMIT, ""
        while True:
            pod = self._pod()
            listed = mappings_at(pod, "status.ephemeralContainerStatuses")
            status = next((each for _, each in listed if each.get("name") == container), {})
            if ended := mapping_at(status, "state.terminated"):
                if ended.get("exitCode") == 0:
                    return
                raise NotAsked(
                    f"the container {container} in {self} failed with status {ended.get('exitCode')} "
                    f"({ended.get('reason')}); see kubectl logs, and --image"
                )
            why = str(mapping_at(status, "state.waiting").get("reason") or why)
            if why in _NO_IMAGE:
                raise NotAsked(
                    f"the node of {self} does not get the image {self.image} ({why}); load it there, or name another "
                    "one with --image"
                )
            if clock() >= deadline:
                state = f" ({why})" if why else ""
                raise NotAsked(
                    f"the container {container} in {self} has not ended within {LIMIT:g} s{state}; see kubectl "
                    "describe pod"
                )
            sleep(PAUSE)

    def _kubectl(self, *words: str, given: bytes = b"") -> bytes:
        import subprocess

        command = [PROGRAM, *options_of(self.access), *words]
        try:
            done = subprocess.run(command, input=given, capture_output=True, timeout=CALL)
        except subprocess.TimeoutExpired:
            raise NotAsked(f"{PROGRAM} {words[0]} has not ended within {CALL:g} s") from None
        except OSError as error:
            raise NotAsked(f"{PROGRAM} could not be started: {error.strerror or error}") from None
        if done.returncode == 0:
            return done.stdout
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = lines[-1].removeprefix("Error from server ") if lines else "it does not say why"
        if "(Forbidden)" in said:
            raise NotAsked(f"a permission is missing to query from {self}: {said[:300]}; {_ROLE}")
        if words[0] == "get" and "(NotFound)" in said:
            raise NotAsked(f"there is no {self}; name one that runs")
        raise NotAsked(f"{PROGRAM} {words[0]} failed, for {self}: {said[:300]}")


def pod_view(options: Doctor) -> PodView | None:
    """The view for --from and --image, None without them; raise FlagError."""
    path = options.from_
    if path is None:
        if "image" in options.given:
            raise FlagError("--image is that of the container of --from; add --from")
        return None
    namespace, slash, name = path.removeprefix("pod/").partition("/")
    if not slash or not namespace or not name or "/" in name:
        files = f"; files are read with --source manifests {path}" if os.path.exists(path) else ""
        raise FlagError(f'--from needs NAMESPACE/POD, found "{path}"{files}')
    if options.no_ask:
        raise FlagError("--from and --no-ask cannot be combined; use only one")
    return PodView(namespace, name, options.image, (), options.server)
