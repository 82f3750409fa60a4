"""/v1/names."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cluster.answer_set import texts, to_object
from hsdns.http_page import PageRequest
from hsdns.server import runtime
from hsdns.server.control import routes
from tests.server.control.served import BLOCK, Beside, served

pytestmark = pytest.mark.sockets
SYNTHETIC = BLOCK.replace("manifests shop.yaml", "synthetic services=60")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_all_names_are_listed() -> None:
    """The same as the answer set has, in its order."""
    async with served(SYNTHETIC) as server:
        found = await server.get("/v1/names")
        answer_set = server.block.answer_set()
        assert found.content_type == "application/jsonl"
        assert found.lines == [
            to_object(zone, rrset, list(texts(rrset)))
            for zone in server.block.zones
            for rrset in answer_set.of_zone(zone)
        ]
        assert len(found.lines) > 60


async def test_open_ended_names_are_told_at_the_end() -> None:

    async with served(BLOCK.replace("source", "pods insecure\nsource")) as server:
        last = (await server.get("/v1/names")).lines[-1]
        assert last == {
            "open_ended": "A-B-C-D.NAMESPACE.pod.cluster.local. A A.B.C.D: any address (pods insecure)"
        }


async def test_a_cluster_that_is_not_read_yet() -> None:
    text = BLOCK.replace(
        "source manifests shop.yaml", "endpoint http://127.0.0.1:1\nstartup_timeout 0s"
    )

    async with served(text) as server:
        assert (await server.get("/v1/names")).lines == [
            {
                "problem": "kubernetes cluster.local. in-addr.arpa.: the cluster has not been read yet"
            }
        ]


async def test_no_kubernetes_block() -> None:

    async with served(". {\nbind 127.0.0.1\ncontrol c.sock\nwhoami\n}\n") as server:
        found = await server.get("/v1/names")
        assert (found.status, found.lines) == (
            404,
            [{"error": "Corefile: there is no kubernetes block, so there are no names to list"}],
        )


async def test_others_run_between_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a turn that is long at once, another task runs before each RRset: it is not kept waiting for the whole."""
    monkeypatch.setattr(runtime, "MAX_TURN", -1.0)

    async with served(SYNTHETIC) as server:
        door = server.reloadable.server._door
        with Beside() as beside:
            listed = [piece async for piece in routes.names(door, PageRequest())]
        lines = sum(piece.count(b"\n") for piece in listed)
        assert beside.turns >= lines > 60
        assert max(map(len, listed)) < 2 * routes.PIECE
