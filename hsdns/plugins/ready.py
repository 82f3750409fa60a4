"""Say over HTTP whether this server should get traffic.

Path: beside the queries; server/http.py calls answer() for /ready.
Source: CoreDNS 1.14.7 plugin/ready.
Rule 1: with `monitor until-ready` a plugin that was ready once is not asked about again.  What is remembered is who was
        still waited for at the last request, and it can only shrink.  A plugin that may relapse is asked every time.
Rule 2: what plugins remark stands below OK, a line each; without remarks the body is CoreDNS's.
Rule 3: from SIGTERM on the answer is 503, so that traffic goes elsewhere while answers still flow.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.corefile.arguments import listen_address, optional_argument
from hsdns.corefile.properties import Property, choice, one, only_once, read_properties
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.readiness import Readiness

DEFAULT_ADDRESS: Final = ":8181"
_TEXT: Final = "text/plain; charset=utf-8"
_log = logging.getLogger("hsdns.plugin.ready")


class Ready(Plugin):
    """Answers /ready."""

    name: ClassVar[str] = "ready"
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "monitor": Property(
            one(choice("until-ready", "continuously")),
            default="until-ready",
            syntax="until-ready|continuously",
        ),
    }

    def __init__(self, address: str = DEFAULT_ADDRESS, *, continuously: bool = False) -> None:
        self.address = address
        self.continuously = continuously
        self._waited_for: set[str] | None = None
        self._runtime: Runtime | None = None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `ready [ADDRESS]`."""
        directive = only_once(directives)
        token = optional_argument(directive)
        options = read_properties(directives, cls.PROPERTIES)
        return cls(
            listen_address(token) if token else DEFAULT_ADDRESS,
            continuously=options["monitor"] == "continuously",
        )

    async def start(self, runtime: Runtime) -> None:
        """Have /ready answered."""
        self._runtime = runtime
        runtime.serve_http(self.address, {"/ready": self.answer})

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Answer a request for /ready: 200 `OK`, or 503 and who is not ready."""
        runtime = self._runtime
        if runtime is None or runtime.stopping:
            return 503, _TEXT, b"Shutting down"
        readiness = runtime.readiness()
        waiting = self._waiting(readiness)
        if not waiting:
            return 200, _TEXT, "\n".join(("OK", *readiness.remarks)).encode()
        names = ",".join(sorted(waiting))
        _log.info('plugin/ready: Plugins not ready: "%s"', names)
        return 503, _TEXT, names.encode()

    def _waiting(self, readiness: Readiness) -> set[str]:
        waiting = set(readiness.unready)
        if self.continuously:
            return waiting
        if self._waited_for is not None:
            waiting &= self._waited_for
        self._waited_for = waiting
        return waiting.union(readiness.relapsed)
