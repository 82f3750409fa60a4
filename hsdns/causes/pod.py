"""Why a pod is not ready, by its status: from its end or its place on a node to its containers and its gates.

Path: behind.py -> here.
Rule 1: the first step that is missing is the reason: a pod that is not scheduled has no container that waits.
Rule 2: of the texts in a status, those of the scheduler and the kubelet are said, never what a program wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hsdns.cluster.controllers.kinds import (
    Condition,
    ContainerStatus,
    PodManifest,
    Probe,
    Terminated,
)
from hsdns.cluster.controllers.workload import TERMINAL
from hsdns.cluster.objects import Endpoint

MOST_SAID: Final = 160  # characters of a message


class Trouble(NamedTuple):
    """Why a pod is not ready, and the words after `kubectl -n NAMESPACE` that tell more."""

    pod: str
    what: str
    tells: str
    since: str = ""

    @property
    def sentence(self) -> str:
        """It with its pod."""
        is_verb = self.what.startswith(("is ", "has "))
        return f"pod {self.pod}{'' if is_verb else ':'} {self.what}"

    @property
    def short(self) -> str:
        """What comes after "not ready"."""
        return self.what.removeprefix("is not ready").removeprefix(": ").removeprefix("is ")


def trouble_of(pod: PodManifest | None) -> Trouble | None:
    """Why a pod is not ready; None if it is, or its status does not say, or it is not known."""
    if pod is None:
        return None
    name, status, deleted = pod.metadata.name, pod.status, pod.metadata.deletion_timestamp
    describe = f"describe pod {name}"
    conditions = {each.type: each for each in status.conditions or ()}
    if status.phase in TERMINAL:
        word = "finished" if status.phase == "Succeeded" else "failed"
        for each in status.container_statuses or () if word == "failed" else ():
            ended = each.state.terminated
            if ended is not None and ended.exit_code:
                how = f"has failed: container {each.name} ended {_ended(ended)}"
                return Trouble(name, how, f"logs {name} -c {each.name}")
        return Trouble(name, f"has {word}{_reason(status.reason)}", describe)
    if deleted is not None:
        return Trouble(name, "is terminating", describe, deleted)
    scheduled, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    if scheduled is not None and scheduled.status == "False":
        why, since = _said(scheduled) or "it is on no node", scheduled.last_transition_time
        return Trouble(name, f"is Pending: {why}", describe, since or "")
    since = (ready.last_transition_time if ready is not None else None) or ""
    init = pod.spec.init_containers or ()
    sidecars = {each.name for each in init if each.restart_policy == "Always"}
    for listed, kind in (
        (status.init_container_statuses, "init container"),
        (status.container_statuses, "container"),
    ):
        for each in listed or ():
            found = _of_container(pod, each, "sidecar" if each.name in sidecars else kind)
            if found is not None:
                return found._replace(since=since)
    for gate in pod.spec.readiness_gates or ():
        condition = conditions.get(gate.condition_type)
        if condition is None:
            return Trouble(
                name, f"readiness gate {gate.condition_type} is not set", describe, since
            )
        if condition.status != "True":
            state = f"{condition.status}{_reason(_said(condition))}"
            return Trouble(
                name, f"readiness gate {gate.condition_type} is {state}", describe, since
            )
    if ready is not None and ready.status != "True":
        said = ready.reason or ready.message
        word = "Unknown" if ready.status == "Unknown" else "not ready"
        return Trouble(name, f"is {word}{f': {said}' if said else ''}", describe, since)
    if status.phase == "Pending":
        return Trouble(name, f"is Pending{_reason(status.reason)}", describe)
    return None


def why_unready(endpoint: Endpoint, pods: Mapping[str, PodManifest]) -> str:
    """Why an endpoint is not ready, with the pods by their names; "" if that is not known."""
    trouble = trouble_of(pods.get((endpoint.target_ref.name if endpoint.target_ref else "") or ""))
    if trouble is not None:
        return trouble.short
    conditions = endpoint.conditions
    return "terminating" if conditions is not None and conditions.terminating else ""


def _of_container(pod: PodManifest, found: ContainerStatus, kind: str) -> Trouble | None:
    """Why a container is not ready; for an init container, why it has not ended well."""
    is_init = kind == "init container"
    if found.ready is not False and not is_init:
        return None
    state, last = found.state, found.last_state.terminated
    where, container = f"{kind} {found.name}", f"-c {found.name}"
    name = pod.metadata.name
    logs, describe = f"logs {name} {container}", f"describe pod {name}"
    if state.waiting is not None:
        reason = state.waiting.reason or "no reason given"
        if is_init and reason == "PodInitializing":
            return None  # it waits for the one before it
        sentence = f"{where} waits: {reason}"
        if last is not None:
            return Trouble(name, f"{sentence}; it last ended {_ended(last)}", f"{logs} --previous")
        message = cut(state.waiting.message or "")
        return Trouble(name, f"{sentence}{f': {message}' if message else ''}", describe)
    if state.terminated is not None:
        is_well = is_init and not state.terminated.exit_code
        return None if is_well else Trouble(name, f"{where} ended {_ended(state.terminated)}", logs)
    if is_init:
        return Trouble(name, f"{where} has not ended", logs) if found.ready is False else None
    said = _of_probe(pod, found) or "is not ready"
    return Trouble(name, f"{where} {said}", describe)


def _of_probe(pod: PodManifest, found: ContainerStatus) -> str:
    """What a probe says of a container that runs; empty if it has none."""
    for each in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        if each.name == found.name and each.startup_probe is not None and found.started is False:
            return f"has not started: startupProbe {' '.join(_probe(each.startup_probe))}"
        if each.name == found.name and each.readiness_probe is not None:
            return f"is not ready: readinessProbe {' '.join(_probe(each.readiness_probe))}"
    return ""


def _probe(probe: Probe) -> Iterator[str]:
    if probe.http_get is not None:
        yield from (
            "httpGet",
            *(str(each) for each in (probe.http_get.path, probe.http_get.port) if each),
        )
    elif probe.tcp_socket is not None:
        yield from ("tcpSocket", str(probe.tcp_socket.port))
    elif probe.grpc is not None:
        yield from ("grpc", str(probe.grpc.port))
    else:
        yield "exec"


def _ended(found: Terminated) -> str:
    reason = "" if found.reason in (None, "Error", "Completed") else f" ({found.reason})"
    return f"with exit code {found.exit_code or 0}{reason}"


def _said(condition: Condition) -> str:
    return cut(condition.message or "") or condition.reason or ""


def cut(text: str) -> str:
    """A message without what the scheduler adds about preemption, in one line of bounded length."""
    line = " ".join(text.partition(" preemption:")[0].split()).rstrip(".")
    return line if len(line) <= MOST_SAID else f"{line[:MOST_SAID].rstrip()}…"


def _reason(reason: str | None) -> str:
    return f" ({reason})" if reason else ""
