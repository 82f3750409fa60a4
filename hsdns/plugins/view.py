"""Restricts a server block to queries that match an expression.

Path: step 4, while the server block is chosen, which may be one of several for the same zone.
Source: CoreDNS 1.14.7 plugin/view.
Rule 1: an expression that fails, or whose result is anything other than true, counts as false.
Cacheable: no, because an expression may depend on the client, so it is evaluated for each query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import Property, only_once, read_properties
from hsdns.corefile.tree import Directive
from hsdns.expression.compiler import Program
from hsdns.expression.queries import NAMES, functions_of, read_expression
from hsdns.expression.tree import ExpressionError
from hsdns.plugin import Block, Plugin
from hsdns.wire.message import Reply

_log = logging.getLogger("hsdns.plugin.view")


class View(Plugin):
    """Evaluates its expressions for each query."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "expr": Property(
            lambda line: read_expression(line, line.args, NAMES),
            syntax="EXPRESSION",
            repeat="collect",
        ),
    }

    def __init__(self, view: str, programs: Sequence[Program]) -> None:
        self.view = view
        self._programs = tuple(programs)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `view NAME { expr EXPRESSION }`; without an expression it accepts all queries."""
        directive = only_once(directives)
        if len(directive.args) != 1:
            raise directive.error(f"view takes a name, found {len(directive.args)} arguments")
        name = directive.args[0]
        if not name.text:
            raise name.error("the name of a view cannot be empty")
        return cls(name.text, read_properties([directive], cls.PROPERTIES)["expr"])

    def filter_request(self, request: Request) -> Request | None:
        """Accept the query if all expressions are true."""
        values = functions_of(request)
        for program in self._programs:
            try:
                if not program.holds(values):
                    return None
            except ExpressionError as error:
                _log.debug("plugin/view: %s: %s: %s", self.view, program.text, error)
                return None
        return request.replace(view=self.view)

    def metadata(self, request: Request) -> Mapping[str, Callable[[], str]]:
        """Return the name of the view."""
        return {"view/name": lambda: self.view}

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on."""
        return await next(request)
