"""Reads one pod with its DNS settings from the API server; the watches have no such pods.

Path: api_server.py, on the connection of the watches -> here -> cluster/pod_reading.py.
Rule 1: the request is a list with a selector for one name: the roles of the stock manifests do not allow `get`.
Rule 2: NetworkPolicies are not read: the roles do not allow that either.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

import msgspec

from hsdns.apiserver.resource import PODS, Scope
from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.pod_reading import PodReading, PodUnreadable
from hsdns.cluster.reading import OTHER_PODS
from hsdns.corefile.tree import did_you_mean
from hsdns.sources.api_reading import DEADLINE, get_page

# RFC 1123: a namespace is a label, the name of a pod may have several.
_PATH: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")  # fmt: skip


class _Pods(msgspec.Struct):
    """core/v1 PodList."""

    items: list[PodManifest] | None = None


async def read_pod(
    transport: Transport, namespace: str, name: str, seconds: float = DEADLINE
) -> PodReading:
    """Read a pod, even one that has ended, in at most `seconds`; raise PodUnreadable."""
    path = f"{namespace}/{name}"
    if not _PATH.fullmatch(path):
        raise PodUnreadable(f'"{path}" is not the name of a namespace and of a pod')
    try:
        async with asyncio.timeout(seconds):
            pods = await _list(transport, namespace, f"metadata.name={name}", 1)
            if not pods:
                others = await _list(transport, namespace, "", OTHER_PODS)
                names = [f"{namespace}/{each.metadata.name}" for each in others]
                raise PodUnreadable(f"the cluster has no pod {path}{did_you_mean(path, names)}")
    except Unreachable as fault:
        raise PodUnreadable(str(fault)) from None
    except TimeoutError:
        raise PodUnreadable(
            f"pods could not be read: {transport.server} did not answer within {seconds:g} s"
        ) from None
    except msgspec.MsgspecError as error:
        said = transport.redact(str(error))
        raise PodUnreadable(f"the pod {path} could not be read: {said}") from None
    status = pods[0].status
    addresses = [each.ip for each in status.pod_ips or ()] or [status.pod_ip or ""]
    return PodReading(pods[0].spec, tuple(filter(None, addresses)), None)


async def _list(transport: Transport, namespace: str, fields: str, limit: int) -> list[PodManifest]:
    query = {"limit": str(limit)}
    if fields:
        query["fieldSelector"] = fields
    page = await get_page(transport, Scope(PODS, namespace), query)
    return msgspec.json.decode(page, type=_Pods).items or []
