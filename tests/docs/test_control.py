"""docs/openapi.yaml against the routes and real replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from hsdns.cluster.objects import Synced
from hsdns.explanation.report import Explanation
from hsdns.server.control import cluster
from hsdns.server.control.routes import ROUTES
from tests.recording.recorded import write
from tests.server.control.served import BLOCK, served
from tests.server.control.test_queries import keep
from tests.support.cluster.objects import service, upserts
from tests.support.manifests.documents import documents

ROOT = Path(__file__).resolve().parents[2]
(API,) = documents((ROOT / "docs" / "openapi.yaml").read_text())
PAGE = ROOT / "docs" / "control.md"
WORDS = set("type enum items oneOf required properties additionalProperties description".split())
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "POLL", 0.001)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found = API
        for word in schema["$ref"].removeprefix("#/").split("/"):
            found = found[word]
        schema = found
    return schema


def faults(value: Any, schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """Where a value is not as the schema says; for the words that docs/openapi.yaml has."""
    schema = resolved(schema)
    assert schema.keys() <= WORDS, schema.keys() - WORDS
    if "oneOf" in schema:
        fitting = [each for each in schema["oneOf"] if not list(faults(value, each))]
        if len(fitting) != 1:
            yield f"{where}: fits {len(fitting)} of oneOf"
        return
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    fits = [name for name in names if isinstance(value, TYPES[name])]
    if not fits or (isinstance(value, bool) and "boolean" not in names):
        yield f"{where}: {value!r} is no {names}"
    elif value not in schema.get("enum", [value]):
        yield f"{where}: {value!r} is not in {schema['enum']}"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults(each, schema["items"], f"{where}/{number}")
    elif isinstance(value, dict):
        yield from (f"{where}: no {name}" for name in schema["required"] if name not in value)
        for name, each in value.items():
            if name in schema["properties"]:
                yield from faults(each, schema["properties"][name], f"{where}/{name}")
            elif schema["additionalProperties"] is True:
                continue  # anything
            elif schema["additionalProperties"]:
                yield from faults(each, schema["additionalProperties"], f"{where}/{name}")
            else:
                yield f"{where}: unknown {name}"


def schema_of(path: str, status: str = "200") -> dict[str, Any]:
    content = resolved(API["paths"][path]["get"]["responses"][status])["content"]
    ((_, media),) = content.items()
    schema: dict[str, Any] = media["schema"]
    return schema


def test_the_paths_are_those_of_the_routes() -> None:
    assert API["paths"].keys() == ROUTES.keys()
    for path, route in ROUTES.items():
        described = API["paths"][path]
        assert {method.upper() for method in described} == set(route.methods)
        for of in described.values():
            assert list(of["responses"]["200"]["content"]) == [route.content_type]
        named = {
            resolved(each)["name"] for of in described.values() for each in of.get("parameters", ())
        }
        assert named == set(route.parameters)
    assert all(f"| `{path}` |" in PAGE.read_text() for path in ROUTES)


def check(value: Any, schema: str | dict[str, Any], status: str = "200") -> None:
    """A value is as a schema says, or that of the replies of a path."""
    schema = schema_of(schema, status) if isinstance(schema, str) else schema
    assert list(faults(value, schema)) == []


def body_of(operation: dict[str, Any]) -> dict[str, Any]:
    ((_, media),) = operation["requestBody"]["content"].items()
    schema: dict[str, Any] = media["schema"]
    return schema


def test_faults_are_found() -> None:
    """The schemas are strict: the tests below would pass with one that allows anything."""
    whole = {"server": "hsdns", "version": "1", "pid": 7, "api": ["v1"]}
    check(whole, "/version")
    for change in ({"pid": "7"}, {"pid": True}, {"server": "x"}, {"api": [1]}, {"more": 1}):
        assert len(list(faults({**whole, **change}, schema_of("/version")))) == 1
    assert list(faults({"error": "", "name": ""}, schema_of("/v1/names")))


@pytest.mark.sockets
@pytest.mark.parametrize(
    "corefile",
    [
        pytest.param(BLOCK.replace("source", "pods insecure\nsource"), id="manifests"),
        pytest.param(BLOCK.replace("source manifests shop.yaml", "endpoint http://127.0.0.1:1\nstartup_timeout 0s"), id="not-read"),
    ],
)  # fmt: skip
async def test_replies_are_as_described(corefile: str) -> None:
    async with served(corefile) as server:
        for path in ("/version", "/v1/server", "/v1/names"):
            found = (await server.get(path)).lines
            assert found
            for line in found:
                check(line, path)
        for name in ("web.shop.svc.cluster.local", "wbe.shop.svc.cluster.local", "a.test."):
            (line,) = (await server.get(f"/v1/explain?name={name}")).lines
            convert(line, Explanation)  # tests/explanation/test_report.py has its schema
        assert schema_of("/v1/explain") == {"$ref": "explain.schema.json"}
        refused = await server.get("/v1/names?x")
        check(refused.lines[0], "/v1/names", "default")
        async with server.client.get("http://localhost/v1/changes") as response:
            lines = [await response.content.readline()]
            if server.block.ready():
                server.apply(*upserts(service("shop/db", "10.96.7.8")))
                lines.append(await asyncio.wait_for(response.content.readline(), 20))
            for line in lines:
                check(json.loads(line), "/v1/changes")


@pytest.mark.sockets
async def test_a_replay_and_what_is_recorded_are_as_described() -> None:
    write(Path("shop.rec"), [*upserts(service("shop/web", "10.96.7.7")), Synced()])
    text = BLOCK.replace("manifests shop.yaml", "replay shop.rec")
    async with served(text) as server:
        async with server.client.get("http://localhost/v1/watch") as response:
            lines = [json.loads(await response.content.readline()) for _ in range(3)]
        assert [each["entry"] for each in lines] == ["header", "object", "state"]
        for line in lines:
            check(line, "/v1/watch")
        body = {"command": "step", "count": 1}
        check(body, body_of(API["paths"]["/v1/replay"]["post"]))
        check((await server.get("/v1/replay")).lines[0], "/v1/replay")
        stepped = await server.get("/v1/replay", "POST", json.dumps(body).encode())
        check(stepped.lines[0], "/v1/replay")


@pytest.mark.sockets
async def test_rules_are_as_described() -> None:
    async with served(faults=True) as server:
        post = API["paths"]["/v1/faults"]["post"]
        body = {"rule": "delay 0s named slow"}
        check(body, body_of(post))
        keep(server)
        await server.reloadable.ask("web.shop.svc.cluster.local")
        written = json.dumps(body).encode()
        first, hit = (await server.get("/v1/faults?dry-run=9", "POST", written)).lines
        one_of = post["responses"]["200"]["content"]["application/jsonl"]["schema"]
        for line, schema in zip((first, hit), one_of["oneOf"][1:], strict=True):
            check(line, schema)
        (rule,) = (await server.get("/v1/faults", "POST", written)).lines
        check(rule, one_of["oneOf"][0])
        check(rule, "/v1/faults")
        async with server.client.get("http://localhost/v1/faults/hits") as response:
            await server.reloadable.ask("web.shop.svc.cluster.local")
            line = json.loads(await response.content.readline())
        check(line, "/v1/faults/hits")
        (ended,) = (await server.get("/v1/faults", "DELETE")).lines
        check(ended, "/v1/faults")
