"""Serves a readiness check over HTTP.

Path: beside the queries; server/http/pages.py calls answer() for /ready.
Source: CoreDNS 1.14.7 plugin/ready.
Rule 1: with `monitor until-ready`, a plugin that was ready at one request counts as ready at all later ones, unless it
        reports that it is no longer ready (`relapsed`).
Rule 2: remarks of plugins follow OK, one per line; without remarks the body is CoreDNS's.
Rule 3: after SIGTERM the status is 503, so that clients go elsewhere while queries are still answered.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.corefile.keys import listen_address
from hsdns.corefile.properties import Property, choice, one, only_once, read_properties
from hsdns.corefile.tree import Directive
from hsdns.http_page import TEXT, HttpPage
from hsdns.plugin import Block, Plugin, Readiness, Runtime

DEFAULT_ADDRESS: Final = ":8181"
_log = logging.getLogger("hsdns.plugin.ready")


class Ready(Plugin):
    """Answers /ready."""

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
        self._unready: set[str] | None = None  # at the last request
        self._served_by: Runtime | None = None

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `ready [ADDRESS]`."""
        address = listen_address(only_once(directives), DEFAULT_ADDRESS)
        options = read_properties(directives, cls.PROPERTIES)
        return cls(address, continuously=options["monitor"] == "continuously")

    async def start(self, runtime: Runtime) -> None:
        """Serve /ready."""
        self._served_by = runtime
        runtime.serve_http(self.address, {"/ready": HttpPage(self.answer)})

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Answer a request for /ready: 200 `OK`, or 503 and the plugins that are not ready."""
        runtime = self._served_by
        if runtime is None or runtime.stopping:
            return 503, TEXT, b"Shutting down"
        readiness = runtime.readiness()
        unready = self._unready_plugins(readiness)
        if not unready:
            return 200, TEXT, "\n".join(("OK", *readiness.remarks)).encode()
        names = ",".join(sorted(unready))
        _log.info('plugin/ready: Plugins not ready: "%s"', names)
        return 503, TEXT, names.encode()

    def _unready_plugins(self, readiness: Readiness) -> set[str]:
        unready = set(readiness.unready)
        if self.continuously:
            return unready
        if self._unready is not None:
            unready &= self._unready
        self._unready = unready
        return unready.union(readiness.relapsed)
