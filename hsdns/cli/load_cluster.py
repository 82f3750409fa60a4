"""The cluster of a load test: its names, its truth and its changes, in a thread of their own.

Path: cli/load.py -> here -> offline.py (the kubernetes block, started without ports), load/truth.py, load/churn.py.
Rule: everything of the cluster happens in this thread; the others read what load/truth.py has noted.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from hsdns.assemble import Configuration
from hsdns.cli.offline import CannotTell, kubernetes_blocks, make_runtime, wait_for_clusters
from hsdns.load.api import ClusterApi
from hsdns.load.churn import Churn
from hsdns.load.errors import LoadError
from hsdns.load.questions import Question, Questions
from hsdns.load.truth import BEAT, Truth
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.synthetic import Synthetic

SWITCH_INTERVAL: Final = 0.0005  # seconds that another thread may hold the interpreter
Choose = Callable[[Sequence[Kubernetes]], Questions]


class LoadCluster:
    """The cluster of a configuration; a context manager that raises LoadError or CannotTell.

    `choose` makes the questions once the cluster is read.  `api` is host and port for other servers to watch it, if
    it is made up.
    """

    def __init__(
        self,
        configuration: Configuration,
        choose: Choose,
        *,
        verifies: bool,
        api: tuple[str, int] | None = None,
    ) -> None:
        self.questions: Questions
        self.truth: Truth | None = None
        self.api: ClusterApi | None = None
        self._configuration = configuration
        self._choose = choose
        self._verifies = verifies
        self._api = api
        self._churn: Churn | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)

    def __enter__(self) -> LoadCluster:
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def begin_churn(self, rate: float) -> None:
        """Change the cluster from now on, `rate` times a second."""
        self._loop.call_soon_threadsafe(self._begin, rate)

    def end_churn(self) -> None:
        """Leave the cluster as it is."""
        self._loop.call_soon_threadsafe(self._end)

    def _begin(self, rate: float) -> None:
        assert self._churn is not None, "made with an API"
        assert self.api is not None, "made with an API"
        self._changing = self._loop.create_task(self._churn.run(self.api, rate))

    def _end(self) -> None:
        self._changing.cancel()

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        blocks = kubernetes_blocks(self._configuration)
        if not blocks:
            raise CannotTell(
                f"{self._configuration.corefile.path}: there is no kubernetes block, so there is no cluster"
            )
        runtime = make_runtime(self._configuration)
        try:
            for block in blocks:
                await block.start(runtime)
            await wait_for_clusters(runtime, blocks)
            self.questions = self._choose(blocks)
            if self._verifies:
                grows = self.questions.pods is not None
                self.truth = Truth(_only(blocks), self._questions(), time.monotonic, grows=grows)
            if self._api is not None:
                await self._open_api(_only(blocks), *self._api)
            self._ready.set()
            while not self._over.is_set():
                if self.truth is not None:
                    self.truth.beat()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), BEAT)
        finally:
            if self.api is not None:
                await self.api.stop()
            for block in blocks:
                await block.stop()
            await runtime.tasks.cancel()

    def _questions(self) -> Sequence[Question]:
        return self.questions.all

    async def _open_api(self, block: Kubernetes, host: str, port: int) -> None:
        source = block.source
        if not isinstance(source, Synthetic) or source.changes:
            raise LoadError(
                "-api serves a made-up cluster: add -source synthetic, without changes; -churn makes them"
            )
        self._churn = Churn(source.shape, block.watch.deliver, time.monotonic)
        self.api = ClusterApi(self._churn.history, host, port)
        await self.api.start()


def _only(blocks: Sequence[Kubernetes]) -> Kubernetes:
    if len(blocks) > 1:
        raise LoadError(
            f"-verify and -api need one kubernetes block, but the Corefile has {len(blocks)}; leave one in it"
        )
    return blocks[0]
