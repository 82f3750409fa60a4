"""Application of a rule to a query and its reply."""

from __future__ import annotations

from collections.abc import Callable

from hsdns.rewriting.rule import Draft, Rule, rewrite
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request


def reply_after(
    rule: Rule,
    qname: str,
    below: Reply,
    lookup: Callable[[Name], Reply | None] = lambda qname: None,
) -> Reply:
    """Query a name, and return the reply as changed by the rule."""
    request = make_request(qname)
    draft = Draft(below)
    steps = rewrite(draft, rule.apply(request.query, request).undo)
    try:
        wanted = steps.send(None)
        while True:
            wanted = steps.send(lookup(wanted))
    except StopIteration:
        return draft.to_reply()
