"""A generator in a pod of an Indexed Job: reads the Job, finds the others, and writes its report into a ConfigMap.

Path: cli/load.py (-job) -> here (ApiWriter) -> the API server, with the service account of the pod.
Rule 1: the Job determines how many portions there are, and they all have to run at one time.
Rule 2: the first pod is the coordinator (generators/meeting.py), and writes its address into a ConfigMap.
Rule 3: the report is compressed; each ConfigMap is owned by the Job and deleted with it.

Requests that write to an API server, of churn.py too, with the access of the kubernetes block's watches:
Rule: an unreachable server is a LoadError; a refusal is returned as its status.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from hsdns.apiserver.access import SERVICE_ACCOUNT, AccessSource
from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.transport import Unreachable
from hsdns.load.errors import LoadError
from hsdns.metrics import Registry

TIMEOUT: Final = 10.0  # seconds for a response


class ApiWriter:
    """Writes to one API server; call close() at the end.  `flag` is the one that it is for, in messages."""

    def __init__(self, source: AccessSource, flag: str = "--churn-api") -> None:
        self._flag = flag
        self._client = ApiClient(
            source, Registry(), time.monotonic, lambda sentence: None, headers_timeout=TIMEOUT
        )

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, str]:
        """Send a request; return status and body of the response; raise LoadError if there is none."""
        octets = b"" if body is None else msgspec.json.encode(body)
        try:
            return await self._client.send(method, path, octets, content_type)
        except Unreachable as error:
            raise LoadError(f"{self._flag}: {error}") from None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


def message_of(text: str) -> str:
    """The message of a Status, or the text itself."""
    try:
        found = msgspec.json.decode(text)["message"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        found = ""
    return str(found or text[:200])


INDEX: Final = "JOB_COMPLETION_INDEX"  # in the environment of each pod of an Indexed Job
LABEL: Final = "hsdns-load/job"
KEY: Final = "report.json.gz"
MOST: Final = 1_000_000  # maximum octets in a ConfigMap, without its names
MEETING: Final = "coordinator"  # the key of its address


class Job(NamedTuple):
    """The fields of an Indexed Job."""

    name: str
    uid: str
    completions: int


class JobApi:
    """The API server of the cluster, for a pod in a namespace; raises errors as LoadError."""

    def __init__(self, source: AccessSource, namespace: str) -> None:
        self._source = source
        self.namespace = namespace
        self._maps = f"/api/v1/namespaces/{quote(namespace)}/configmaps"

    def job(self, name: str) -> Job:
        """Read a Job."""
        path = f"/apis/batch/v1/namespaces/{quote(self.namespace)}/jobs/{quote(name)}"
        found = self._ask("GET", path)
        spec = found["spec"]
        if spec.get("completionMode") != "Indexed":
            raise LoadError(
                f"--job: the Job {name} has no indexes; set completionMode: Indexed in its spec"
            )
        if spec["parallelism"] < spec["completions"]:
            raise LoadError(
                f"--job: the Job {name} runs {spec['parallelism']} of its {spec['completions']} generators at a time, "
                "and they begin together; set parallelism to completions in its spec"
            )
        return Job(name, found["metadata"]["uid"], spec["completions"])

    def put_report(self, job: Job, index: int, report: bytes) -> str:
        """Write a report into the ConfigMap of an index of the Job; return its name."""
        name = f"{job.name}-{index}"
        self._put(name, {"binaryData": packed(report)}, job)
        return name

    def put_coordinator(self, job: Job, host: str, port: int) -> None:
        """Let the other pods of the Job find the coordinator."""
        self._put(f"{job.name}-{MEETING}", {"data": {"host": host, "port": str(port)}}, job)

    def coordinator(self, job: Job) -> tuple[str, int] | None:
        """The address of the coordinator; None if it is not there yet."""
        name = f"?fieldSelector=metadata.name%3D{quote(job.name)}-{MEETING}"
        for each in self._ask("GET", f"{self._maps}{name}")["items"]:
            # One of an earlier Job of this name is deleted with it, but later.
            if each["metadata"]["ownerReferences"][0]["uid"] == job.uid:
                return each["data"]["host"], int(each["data"]["port"])
        return None

    def own_address(self) -> str:
        """The address of this pod, as the API server and other pods see it."""
        parts = urlsplit(self._source.server)
        place = parts.hostname or "", parts.port or 443
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as found:  # sends nothing
            found.connect(place)
            return str(found.getsockname()[0])

    def _put(self, name: str, content: dict[str, Any], job: Job) -> None:
        body = config_map(name, self.namespace, job) | content
        path = f"{self._maps}/{quote(name)}?fieldManager=hsdns-load&force=true"
        self._ask("PATCH", path, body)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request; return the object of the response."""

        async def send() -> tuple[int, str]:
            writer = ApiWriter(self._source, "--job")
            try:
                # JSON is YAML, and a PATCH of it applies it.
                return await writer.send(method, path, body, "application/apply-patch+yaml")
            finally:
                await writer.close()

        status, text = asyncio.run(send())
        if status >= 400:
            place, why = path.partition("?")[0], message_of(text)
            raise LoadError(f"the API server answers {method} {place} with {status}: {why}")
        return json.loads(text)


def packed(report: bytes) -> dict[str, str]:
    """The content of the ConfigMap of a report; raise LoadError if the report is too large."""
    found = gzip.compress(report, 9, mtime=0)
    if len(found) > MOST:
        raise LoadError(
            f"the report has {len(found)} octets when compressed, more than a ConfigMap holds; give a shorter --time, "
            "or write it to a volume with --json"
        )
    return {KEY: base64.b64encode(found).decode()}


def config_map(name: str, namespace: str, job: Job) -> dict[str, Any]:
    """A ConfigMap without content, which belongs to a Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {LABEL: job.name},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def reports_of(octets: bytes, name: str) -> list[tuple[str, bytes]]:
    """The reports in a list of ConfigMaps, as kubectl prints it, by their names; raise LoadError.

    An empty list if it is something else, such as a report; `name` is the name of the file.
    """
    try:
        found = json.loads(octets)
    except ValueError:
        return []
    if not isinstance(found, dict) or "apiVersion" not in found:
        return []
    items = found.get("items", [found])
    try:
        reports = [
            (each["metadata"]["name"], gzip.decompress(base64.b64decode(each["binaryData"][KEY])))
            for each in items
            if KEY in each.get("binaryData", {})
        ]
    except (AttributeError, KeyError, TypeError, ValueError, OSError, EOFError) as error:
        raise LoadError(f"{name}: a ConfigMap has no report ({error!r})") from None
    if not reports:
        raise LoadError(f"{name}: no ConfigMap of {len(items)} has a report ({KEY})")
    return reports


def read_namespace(folder: str = SERVICE_ACCOUNT) -> str:
    """The namespace of this pod; raise LoadError."""
    try:
        return Path(folder, "namespace").read_text("utf-8").strip()
    except OSError as error:
        raise LoadError(f"--job: this is not a pod with a service account: {error}") from None


def read_index(environment: Mapping[str, str]) -> int:
    """The index of this pod; raise LoadError."""
    text = environment.get(INDEX, "")
    if not (text.isascii() and text.isdigit()):
        raise LoadError(
            f"--job: {INDEX} is not set, so this is not a pod of an Indexed Job; --part gives a portion elsewhere"
        )
    return int(text)
