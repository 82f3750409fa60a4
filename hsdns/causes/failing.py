"""All names that fail: that the server does not give though the objects mean them, or that lead nowhere.

Path: doctor/, the page, top (a view, and what the server answers) -> here -> (name, Cause).
Rule: a name is listed exactly if the server has no record for it, or nothing stands behind its Service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hsdns.causes.behind import cause_behind
from hsdns.causes.cause import Cause
from hsdns.causes.intended import intended
from hsdns.causes.view import View

# Whether the server has a record for a name without its zone, such as "db-0.db.shop.svc".
Answers = Callable[[str], bool]


def failing(view: View, answers: Answers | None = None) -> Iterator[tuple[str, Cause]]:
    """The names that fail, each with its cause; without `answers`, a server that has the slices of the view."""
    for each in intended(view):
        service = view.services.get((each.namespace, each.service))
        cause = cause_behind(view, service, each.port) if service is not None else None
        if cause is not None:
            yield each.name, cause
