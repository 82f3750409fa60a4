"""A generator in a pod of an Indexed Job: reads the Job, and writes its report into a ConfigMap.

Path: cli/load.py (-job) -> here -> the API server, with the service account of the pod.
Rule 1: the Job determines how many portions there are, and when the load begins: at a fixed time after its own start,
        which is the same for all pods.
Rule 2: the report is compressed; its ConfigMap is owned by the Job and deleted with it.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from hsdns.apiserver.access import SERVICE_ACCOUNT, Access
from hsdns.load.errors import LoadError

INDEX: Final = "JOB_COMPLETION_INDEX"  # in the environment of each pod of an Indexed Job
LABEL: Final = "hsdns-load/job"
KEY: Final = "report.json.gz"
MOST: Final = 1_000_000  # maximum octets in a ConfigMap, without its names
TIMEOUT: Final = 10.0  # seconds
PATIENCE: Final = 30  # seconds until a Job has started


class Job(NamedTuple):
    """The fields of a Job; `started` in seconds since 1970, `completions` as in an Indexed Job."""

    name: str
    uid: str
    started: float
    completions: int


class JobApi:
    """The API server of the cluster, for a pod in a namespace; raises errors as LoadError."""

    def __init__(self, access: Access, namespace: str) -> None:
        self._access = access
        self.namespace = namespace

    def job(self, name: str, sleep: Callable[[float], None]) -> Job:
        """Read a Job; wait until it has started."""
        path = f"/apis/batch/v1/namespaces/{quote(self.namespace)}/jobs/{quote(name)}"
        for _ in range(PATIENCE):
            found = self._ask("GET", path)
            if found["spec"].get("completionMode") != "Indexed":
                raise LoadError(
                    f"-job: the Job {name} has no indexes; set completionMode: Indexed in its spec"
                )
            if started := found.get("status", {}).get("startTime"):
                completions = found["spec"]["completions"]
                since = datetime.fromisoformat(started.replace("Z", "+00:00")).timestamp()
                return Job(name, found["metadata"]["uid"], since, completions)
            sleep(1.0)
        raise LoadError(f"-job: the Job {name} has no startTime after {PATIENCE} seconds")

    def put_report(self, job: Job, index: int, report: bytes) -> str:
        """Write a report into the ConfigMap of an index of the Job; return its name."""
        name = f"{job.name}-{index}"
        path = f"/api/v1/namespaces/{quote(self.namespace)}/configmaps/{quote(name)}"
        body = config_map(name, self.namespace, job, report)
        self._ask("PATCH", f"{path}?fieldManager=hsdns-load&force=true", body)
        return name

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request; return the object of the response."""
        url = urlsplit(self._access.server)
        connection: http.client.HTTPConnection
        if url.scheme == "https":
            connection = http.client.HTTPSConnection(
                url.hostname or "", url.port, timeout=TIMEOUT, context=_tls(self._access)
            )
        else:
            connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT)
        headers = {"Accept": "application/json"}
        if self._access.authorization:
            headers["Authorization"] = self._access.authorization
        if body is not None:
            headers["Content-Type"] = "application/apply-patch+yaml"  # JSON is YAML
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body).encode(), headers
            )
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise LoadError(f"the API server at {self._access.server}: {error}") from None
        finally:
            connection.close()
        if response.status >= 400:
            raise LoadError(
                f"the API server answers {method} {path.partition('?')[0]} with {response.status}: {_message(content)}"
            )
        return json.loads(content)


def config_map(name: str, namespace: str, job: Job, report: bytes) -> dict[str, Any]:
    """The ConfigMap of a report; raise LoadError if the report is too large."""
    packed = gzip.compress(report, 9, mtime=0)
    if len(packed) > MOST:
        raise LoadError(
            f"the report has {len(packed)} octets when compressed, more than a ConfigMap holds; give a shorter -time, "
            "or write it to a volume with -json"
        )
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {LABEL: job.name},
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "binaryData": {KEY: base64.b64encode(packed).decode()},
    }


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
        raise LoadError(f"-job: this is no pod with a service account: {error}") from None


def read_index(environment: Mapping[str, str]) -> int:
    """The index of this pod; raise LoadError."""
    text = environment.get(INDEX, "")
    if not (text.isascii() and text.isdigit()):
        raise LoadError(
            f"-job: {INDEX} is not set, so this is no pod of an Indexed Job; -part gives a portion elsewhere"
        )
    return int(text)


def _tls(access: Access) -> ssl.SSLContext:
    authority = access.authority
    if isinstance(authority, bytes):
        context = ssl.create_default_context(cadata=authority.decode())
    else:
        context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the CAs of many clusters do not satisfy it
    return context


def _message(content: bytes) -> str:
    """The message of an API server's Status, or else the text of the response."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace")
