"""The first requests of the watches, sent before the rest of the server is imported.

Path: cli/launch.py parses the Corefile -> here -> apiserver/client.py, in the thread of the watches.  Once it is
imported, api_server.py makes the same requests, and gets these responses.
Rule 1: after any error nothing is sent ahead; the plugin reports the error later.
Rule 2: an unneeded request costs a connection until the server has started.
Rule 3: this module imports the code that connects, and none that decodes, stores or answers (tests/test_imports.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.resource import Scope, accepted
from hsdns.cluster.objects import Selector
from hsdns.corefile.tree import Corefile, Directive
from hsdns.metrics import Registry
from hsdns.sources.api_access import ApiAccess, ConnectionOptions, WatchOptions

log = logging.getLogger("hsdns.plugin.kubernetes")

# The same as in Reflector.next_request(); the lifetime of a watch is random anyway.
STREAM: Final = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "watch": "true",
    "allowWatchBookmarks": "true",
}
WATCH_SECONDS: Final = (300, 600)


class Ahead:
    """Clients that have sent requests ahead; `call` calls a function in the thread of the watches."""

    def __init__(self, metrics: Registry, call: Callable[[Callable[[], object]], object]) -> None:
        self._metrics = metrics
        self._call = call
        self._made: dict[ApiAccess, ApiClient] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def send(self, wanted: Mapping[ApiAccess, WatchOptions]) -> None:
        """Send the requests for all scopes."""
        random = Random()
        for access, options in wanted.items():
            source = access.source(time.monotonic, time.time, _warn)
            client = ApiClient(source, self._metrics, time.monotonic, _warn)
            self._made[access] = ApiAccess.ahead[access] = client
            self._call(partial(_ask, client, options.scopes, random))

    def drop(self) -> None:
        """Close the clients that no source has taken over; called when all sources have begun."""
        self._call(self._drop)

    def _drop(self) -> None:
        task = asyncio.get_running_loop().create_task(self.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the clients that no source has taken over; called in the thread of the watches."""
        made, self._made = self._made, {}
        for access, client in made.items():
            if ApiAccess.ahead.get(access) is client:
                del ApiAccess.ahead[access]
                await client.close()


def _ask(client: ApiClient, scopes: Iterable[Scope], random: Random) -> None:
    compiled = is_compiled()
    for scope in scopes:
        seconds = str(random.randint(*WATCH_SECONDS))
        accept = accepted(scope.resource, is_compiled=compiled)
        query = {**scope.query, **STREAM, "timeoutSeconds": seconds}
        client.send_ahead(scope.path, query, accept)


def is_compiled() -> bool:
    """Whether the compiled code probably exists, without importing it; a wrong request is sent again."""
    folder = Path(__file__).parents[1] / "fastpath"
    return os.environ.get("HSDNS_NO_EXTENSIONS") != "1" and any(folder.glob("_native*.so"))


def wanted_of(corefile: Corefile) -> dict[ApiAccess, WatchOptions]:
    """The watches of a Corefile by API server and credentials, without those of invalid directives."""
    found: dict[ApiAccess, WatchOptions] = {}
    for block in corefile.blocks:
        for directive in block.directives:
            if directive.name.text == "kubernetes":
                try:
                    read = _read(directive)
                except ValueError:
                    continue
                if read is not None:
                    access, options = read
                    known = found.get(access)
                    found[access] = options if known is None else known.union(options)
    return found


def _read(directive: Directive) -> tuple[ApiAccess, WatchOptions] | None:
    """The watches of a directive, None if it has another source; raise ValueError."""
    words: dict[str, tuple[str, ...]] = {}
    for line in directive.lines:
        args = tuple(token.text for token in line.args)
        words[line.name.text] = (*words.get(line.name.text, ()), *args)
    if "source" in words:
        return None

    def of(name: str) -> tuple[str, ...]:
        return words.get(name, ())

    def selector(name: str) -> str:
        return str(Selector.from_text(" ".join(of(name)))) if of(name) else ""

    options = WatchOptions(
        namespaces=of("namespaces"),
        labels=selector("labels"),
        namespace_labels=selector("namespace_labels"),
        endpoints="noendpoints" not in words,
        pods=of("pods") == ("verified",),
        imports=bool(of("multicluster")),
    )
    connection = ConnectionOptions(of("kubeconfig"), of("endpoint"), of("tls"))
    if len(of("tls")) not in (0, 3) or len(of("kubeconfig")) > 2:
        raise ValueError("the plugin says where")
    return ApiAccess(connection), options


def _warn(sentence: str) -> None:
    log.warning("plugin/kubernetes: %s", sentence)
