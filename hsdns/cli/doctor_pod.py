"""The answers of the DNS servers to a Pod: an ephemeral container of hsdns in it sends the queries.

Path: cli/doctor_servers.py -> here -> kubectl, which runs cli/ask.py there.
Rule 1: kubectl makes the container, so permissions, proxies and credentials are those of the user.
Rule 2: the container has no privileges except the capability of the image's interpreter, and sends only DNS queries.
Rule 3: every error is a sentence, and does not affect the rest of the report.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hsdns import __version__
from hsdns.cli.command import flag
from hsdns.cli.flags import FlagError

if TYPE_CHECKING:
    from hsdns.cli.doctor import Doctor

PROGRAM: Final = "kubectl"
IMAGE: Final = f"ghcr.io/hsdns/hsdns:{__version__}"
LIMIT: Final = 60.0  # seconds from the start of the container to its end
PAUSE: Final = 1.0  # seconds between two checks of it
CALL: Final = 30.0  # seconds for one call of kubectl
USER: Final = 65532  # as in the image
FROM_POD: Final = flag(
    "ask the DNS servers from this pod, too: an ephemeral container is added to it, by kubectl",
    "NAMESPACE/POD",
)
IMAGE_FLAG: Final = flag(
    f"image of hsdns for that container (default: {IMAGE})", "IMAGE", name="image"
)
# The kubelet's reasons for an image that it cannot pull and keeps trying to pull.
_NO_IMAGE: Final = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_ROLE: Final = "deploy/doctor/from-pod has the rights"
Sleep = Callable[[float], None]


class NotAsked(Exception):
    """No query was sent from the Pod; the message is a sentence that says why."""


class PodView(NamedTuple):
    """The Pod to query from; `access` are FILE and CONTEXT of a kubeconfig, `servers` replace its own ones."""

    namespace: str
    name: str
    image: str
    access: tuple[str, str]
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
        if shutil.which(PROGRAM) is None:
            raise NotAsked(f"{PROGRAM} is not on PATH; install it, or run hsdns doctor in the Pod")
        pod = self._pod()
        phase = _mapping(pod, "status").get("phase")
        if phase != "Running":
            raise NotAsked(f"{self} does not run (its phase is {phase}); name one that does")
        spec = _mapping(pod, "spec")
        system = _mapping(spec, "os").get("name") or _mapping(spec, "nodeSelector").get(
            "kubernetes.io/os"
        )
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
        try:
            found = json.loads(said)
        except ValueError:
            found = None
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise NotAsked(f"the container in {self} printed no JSON of hsdns ask; see -image")
        return found

    def _pod(self) -> dict[str, Any]:
        text = self._kubectl("get", "pod", self.name, "--namespace", self.namespace, "-o", "json")
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise NotAsked(f"what {PROGRAM} prints of {self} is no object")
        return found

    def _container(self, name: str, questions: Sequence[str]) -> Mapping[str, Any]:
        servers = ["-server", *self.servers] if self.servers else []
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
        deadline, why = clock() + LIMIT, ""
        while True:
            pod = self._pod()
            listed = _mapping(pod, "status").get("ephemeralContainerStatuses") or ()
            status: Mapping[str, Any] = next(
                (each for each in listed if each.get("name") == container), {}
            )
            ended = _mapping(status, "state").get("terminated")
            if isinstance(ended, dict):
                if ended.get("exitCode") == 0:
                    return
                raise NotAsked(
                    f"the container {container} in {self} failed with status {ended.get('exitCode')} "
                    f"({ended.get('reason')}); see kubectl logs, and -image"
                )
            why = str(_mapping(status, "state", "waiting").get("reason") or why)
            if why in _NO_IMAGE:
                raise NotAsked(
                    f"the node of {self} does not get the image {self.image} ({why}); load it there, or name another "
                    "one with -image"
                )
            if clock() >= deadline:
                state = f" ({why})" if why else ""
                raise NotAsked(
                    f"the container {container} in {self} has not ended within {LIMIT:g} s{state}; see kubectl "
                    "describe pod"
                )
            sleep(PAUSE)

    def _kubectl(self, *words: str, given: bytes = b"") -> bytes:
        file, context = self.access
        command = [PROGRAM, *([f"--kubeconfig={file}"] if file else [])]
        command += [f"--context={context}"] if context else []
        try:
            done = subprocess.run(
                [*command, *words], input=given, capture_output=True, timeout=CALL
            )
        except subprocess.TimeoutExpired:
            raise NotAsked(f"{PROGRAM} {words[0]} has not ended within {CALL:g} s") from None
        except OSError as error:
            raise NotAsked(f"{PROGRAM} could not be started: {error.strerror or error}") from None
        if done.returncode == 0:
            return done.stdout
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = lines[-1].removeprefix("Error from server ") if lines else "it does not say why"
        if "(Forbidden)" in said:
            raise NotAsked(f"a right is missing to ask from {self}: {said[:300]}; {_ROLE}")
        if words[0] == "get" and "(NotFound)" in said:
            raise NotAsked(f"there is no {self}; name one that runs")
        raise NotAsked(f"{PROGRAM} {words[0]} failed, for {self}: {said[:300]}")


def pod_view(options: Doctor, access: tuple[str, str]) -> PodView | None:
    """The view for -from-pod and -image, None without them; raise FlagError."""
    path = options.from_pod
    if path is None:
        if "image" in options.given:
            raise FlagError("-image is that of the container of -from-pod; add -from-pod")
        return None
    namespace, slash, name = path.removeprefix("pod/").partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise FlagError(f'-from-pod needs NAMESPACE/POD, found "{path}"')
    if options.no_ask:
        raise FlagError("-from-pod and -no-ask exclude each other; leave one out")
    return PodView(namespace, name, options.image, access, options.server)


def _mapping(value: Any, *path: str) -> dict[str, Any]:
    """The mapping at a path; empty if there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
