"""All names that fail: that the server does not give though the objects mean them, or that lead nowhere.

Path: doctor/, the page, top (a view, and what the server answers) -> here -> (name, Cause).
Rule 1: a name is listed exactly if there is no record for it, or nothing stands behind its Service.  A headless Service
        of which some endpoints are ready has records; the names of the pods that are not ready are listed.
Rule 2: what could not be read makes no name fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hsdns.causes.alias import cause_of_missing, service_of, through
from hsdns.causes.behind import cause_behind, cause_of_pod, place
from hsdns.causes.cause import Cause
from hsdns.causes.intended import Intended, intended
from hsdns.causes.view import SLICES, Key, View
from hsdns.cluster.lookup import MOST_ALIASES
from hsdns.cluster.objects import Service

# Whether the server has a record for a name without its zone, such as "db-0.db.shop.svc".
Answers = Callable[[str], bool]


def failing(view: View, answers: Answers | None = None) -> Iterator[tuple[str, Cause]]:
    """The names that fail, each with its cause; without `answers`, of a server that has the slices of the view."""
    if SLICES in view.unknown:
        return
    behind: dict[Key, Cause | None] = {}
    for each in intended(view):
        key = each.namespace, each.service
        service = view.services.get(key)
        cause: Cause | None = None
        if view.exposed and each.namespace not in view.exposed:
            cause = left_out(each.namespace)
        elif each.pod:
            cause = cause_of_pod(view, *key, each.name.partition(".")[0])
        elif service is not None:
            if key not in behind:
                behind[key] = _of_service(view, service)
            cause = behind[key] or (cause_behind(view, service, each.port) if each.port else None)
        if cause is None and answers is not None and not answers(each.name):
            cause = _not_answered(view, each)
        if cause is not None:
            yield each.name, cause


def left_out(namespace: str) -> Cause:
    """The cause for the names of a namespace that the server does not serve."""
    sentence = f"`namespaces` of the kubernetes block leaves out {namespace}"
    return Cause("", "Corefile", sentence, f"edit the Corefile: `namespaces` has {namespace}")


def _of_service(view: View, service: Service, depth: int = 0) -> Cause | None:
    cause = cause_behind(view, service) or cause_of_missing(service, view.services, view.domain)
    key = service_of(service.spec.external_name or "", view.domain)
    target = view.services.get(key) if key is not None else None
    if cause is None and target is not None and depth < MOST_ALIASES:
        return through(service, _of_service(view, target, depth + 1))
    return cause


def _not_answered(view: View, each: Intended) -> Cause:
    """The cause of a name that has all that it needs: the server reads other objects, or has not read them yet."""
    service = view.services.get((each.namespace, each.service))
    where = place(service) if service is not None else f"Pod {each.namespace}/{each.pod}"
    sentence = f"the server has no record for it, though {where} and its endpoints are there"
    return Cause("", where, sentence, f"hsdns explain {each.name}")
