"""Applies rules in the chain of a server block: before `cache`, after `prometheus` and `log`.

Path: plugins/fault.py, or server/faults.py for the rules of the control API; step 5, among the first that may answer.
Rule 1: metrics, logs and clients get the changed reply; `cache` and the plugins after it see the original one.
Rule 2: a rule is evaluated when the query arrives.  A delayed reply is computed at once, so that no query of the old
        plugins is in progress after a reload.
Rule 3: lookups of the server itself (Request.depth) and classes other than IN are not affected.
Cacheable: no, a rule must see each query that it can match.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from hsdns.chain import Endpoint, Next, Request
from hsdns.faults.action import Course
from hsdns.faults.rules import Rule, Rules
from hsdns.faults.selector import UNKNOWN, Asked, PodOf
from hsdns.faults.state import decisive, earlier_for
from hsdns.wire.iana import RRClass
from hsdns.wire.message import Reply, is_notify
from hsdns.wire.name import Name

Sleep = Callable[[float], Awaitable[None]]
Resolve = Callable[[Request], Awaitable[Reply]]
NO_PODS: Final[PodOf] = lambda address: None  # noqa: E731 - a value, for a server without pods


class FaultHandler:
    """Applies a set of rules to each query; `sleep` waits for some seconds, `resolve` is Runtime.resolve()."""

    name: ClassVar[str] = "fault"

    def __init__(
        self, rules: Rules, sleep: Sleep, resolve: Resolve, pod_of: PodOf = NO_PODS
    ) -> None:
        self.rules = rules
        self._sleep, self._resolve, self._pod_of = sleep, resolve, pod_of

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Apply the actions of the rules that match."""
        query = request.query
        if request.depth or query.qclass != RRClass.IN or is_notify(query):
            return await next(request)
        bites = self.rules.decide(Asked.of(request, self._pod_of), request.now)
        if not bites:
            return await next(request)
        earlier = earlier_for(bites, request.now)
        before = request.earlier
        if earlier is not None and before is not None and before.time <= earlier.time:
            earlier = None  # a rule of a previous handler selects an older state
        if earlier is not None:
            request = request.replace(earlier=earlier)

        async def ask(qname: Name, qtype: int) -> Reply:
            if qname is query.qname and qtype == query.qtype:
                return await next(request)
            return await self._resolve(request.nested(qname, qtype))

        course = Course(query, ask)
        for rule, drawn, _ in bites:
            await rule.action.act(course, drawn, rule.seed)
            if course.reply is not None and course.reply.dropped:
                return course.reply
        reply = await course.answered()
        if earlier is not None and earlier.differs:
            for bite in decisive(bites, earlier, request.now):
                self.rules.confirm(bite)
        if course.delay:
            await self._sleep(course.delay)
        return reply if reply.dropped else reply.replace(fresh=False, still_holds=None)

    def foresee(self, request: Request) -> list[tuple[Rule, bool]]:
        """The rules that would hit a query, with True, and those that may; changes nothing.  Port 0 is no client's."""
        asked = Asked.of(request, self._pod_of)._replace(transport=UNKNOWN, local=UNKNOWN)
        if not request.client.port:
            asked = asked._replace(client=Endpoint(UNKNOWN, 0))
        return self.rules.foresee(asked, request.now)
