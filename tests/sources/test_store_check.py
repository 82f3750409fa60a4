import asyncio
import contextlib
import logging

import pytest

from hsdns.apiserver.transport import Unreachable
from hsdns.cluster.objects import Namespace, Object, ObjectMeta, Synced, Upserted
from hsdns.cluster.store import Store, StoreSettings
from hsdns.sources.api_server import ApiServer
from hsdns.sources.store_check import check_interval, check_store
from tests.support.plugins.runtime import FakeRuntime


@pytest.mark.parametrize(
    ("text", "seconds", "warnings"),
    [("", None, 0), ("60", 60.0, 0), ("0.5", 0.5, 0), ("0", None, 1), ("often", None, 1), ("-1", None, 1), ("nan", None, 1)],
)  # fmt: skip
def test_check_interval(text: str, seconds: float | None, warnings: int) -> None:
    log: list[str] = []
    environment = {"HSDNS_CHECK_STORE": text} if text else {}
    assert check_interval(lambda level, message: log.append(message), environment) == seconds
    assert len(log) == warnings


class Listed(ApiServer):
    """A source with given lists; None stands for an unreachable API server."""

    def __init__(self, *lists: list[Object] | None) -> None:
        self.lists = list(lists)

    async def objects(self) -> list[Object]:
        found = self.lists.pop(0)
        if found is None:
            raise Unreachable("connection refused")
        return found


A, B = (Namespace(ObjectMeta(name=name, resource_version="1")) for name in "ab")


@pytest.mark.parametrize(
    ("lists", "levels"),
    [
        pytest.param([[A], [A], [A]], [], id="no difference"),
        pytest.param([[A, B], [A], [A]], [], id="a difference that is gone the next time"),
        pytest.param([[A, B], [A, B], [A, B]], [logging.ERROR], id="one that stays is told once"),
        pytest.param([None, [A], [A]], [logging.WARNING], id="the server is away"),
    ],
)
def test_check_store(lists: list[list[Object] | None], levels: list[int]) -> None:
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=lambda sentence: None)
    store.apply([Upserted(A), Synced()])
    source, runtime = Listed(*lists), FakeRuntime()
    log: list[tuple[int, str]] = []

    async def sleep(seconds: float) -> None:
        assert seconds == 60.0
        if not source.lists:
            raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(
            check_store(source, store, lambda *line: log.append(line), runtime, 60.0, sleep)
        )
    assert log[0] == (logging.INFO, "the store is compared with the API server every 60 s")
    assert [level for level, _ in log[1:]] == levels
    counter = runtime.metrics.counter("hsdns_store_inconsistencies_total", "")
    assert counter.values == {(): levels.count(logging.ERROR)}
