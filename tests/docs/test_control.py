"""docs/openapi.yaml against the routes and real replies, and the commands of docs/control.md against a server."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from hsdns.cluster.objects import Synced
from hsdns.explanation.report import Explanation
from hsdns.server.control import cluster
from hsdns.server.control.routes import ROUTES
from loadtest.ports import free_port
from tests.docs.test_examples import Fence, as_pattern, fences
from tests.recording.recorded import write
from tests.server.control.served import BLOCK, served
from tests.server.control.test_queries import keep
from tests.support.clients.command import serving
from tests.support.cluster.objects import service, upserts
from tests.support.coroutines.event_loops import run
from tests.support.manifests.documents import documents

ROOT = Path(__file__).resolve().parents[2]
(API,) = documents((ROOT / "docs" / "openapi.yaml").read_text())
PAGE = ROOT / "docs" / "control.md"
FENCES = list(fences(PAGE))
CONSOLES = [fence for fence in FENCES if fence.language == "console" and "$ curl" in fence.body]
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
    known = {
        "type",
        "enum",
        "items",
        "oneOf",
        "required",
        "properties",
        "additionalProperties",
        "description",
    }
    assert schema.keys() <= known, schema.keys() - known
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


@pytest.mark.parametrize(
    ("value", "path", "fault"),
    [
        ({"pid": "7"}, "/version", ["/pid: '7' is no ['integer']"]),
        ({"pid": True}, "/version", ["/pid: True is no ['integer']"]),
        ({"server": "x"}, "/version", ["/server: 'x' is not in ['hsdns']"]),
        ({"api": [1]}, "/version", ["/api/0: 1 is no ['string']"]),
        ({"more": 1}, "/version", [": unknown more"]),
        ({"error": "", "name": ""}, "/v1/names", [": fits 0 of oneOf"]),
        ({"time": "", "share": 1, "name": ""}, "/v1/queries", [": fits 0 of oneOf"]),
    ],
)
def test_faults_are_found(value: dict[str, Any], path: str, fault: list[str]) -> None:
    whole = (
        {"server": "hsdns", "version": "1", "pid": 7, "api": ["v1"]} if path == "/version" else {}
    )
    assert list(faults({**whole, **value}, schema_of(path))) == fault


@pytest.mark.sockets
@pytest.mark.parametrize(
    "corefile",
    [
        pytest.param(BLOCK.replace("source", "pods insecure\nsource"), id="manifests"),
        pytest.param(BLOCK.replace("source manifests shop.yaml", "endpoint http://127.0.0.1:1\nstartup_timeout 0s"), id="not-read"),
    ],
)  # fmt: skip
def test_replies_are_as_described(corefile: str) -> None:
    async def case() -> None:
        async with served(corefile) as server:
            for path in ("/version", "/v1/server", "/v1/names"):
                found = (await server.get(path)).lines
                assert found
                assert [fault for line in found for fault in faults(line, schema_of(path))] == []
            for name in ("web.shop.svc.cluster.local", "wbe.shop.svc.cluster.local", "a.test"):
                (line,) = (await server.get(f"/v1/explain?name={name}")).lines
                convert(line, Explanation)  # tests/explanation/test_report.py has its schema
            assert schema_of("/v1/explain") == {"$ref": "explain.schema.json"}
            refused = await server.get("/v1/names?x")
            assert list(faults(refused.lines[0], schema_of("/v1/names", "default"))) == []
            async with server.client.get("http://localhost/v1/changes") as response:
                lines = [await response.content.readline()]
                if server.block.ready():
                    server.apply(*upserts(service("shop/db", "10.96.7.8")))
                    lines.append(await asyncio.wait_for(response.content.readline(), 20))
                for line in lines:
                    assert list(faults(json.loads(line), schema_of("/v1/changes"))) == []

    run(case())


@pytest.mark.sockets
def test_a_replay_and_what_is_recorded_are_as_described() -> None:
    write(Path("shop.rec"), [*upserts(service("shop/web", "10.96.7.7")), Synced()])
    text = BLOCK.replace("manifests shop.yaml", "replay shop.rec")

    async def case() -> None:
        async with served(text) as server:
            async with server.client.get("http://localhost/v1/watch") as response:
                lines = [json.loads(await response.content.readline()) for _ in range(3)]
            assert [each["entry"] for each in lines] == ["header", "object", "state"]
            assert [list(faults(each, schema_of("/v1/watch"))) for each in lines] == [[], [], []]
            post = API["paths"]["/v1/replay"]["post"]
            ((_, media),) = post["requestBody"]["content"].items()
            body = {"command": "step", "count": 1}
            assert list(faults(body, media["schema"])) == []
            for answer in (
                await server.get("/v1/replay"),
                await server.get("/v1/replay", "POST", json.dumps(body).encode()),
            ):
                assert list(faults(answer.lines[0], schema_of("/v1/replay"))) == []

    run(case())


@pytest.mark.sockets
def test_rules_are_as_described() -> None:
    async def case() -> None:
        async with served(faults=True) as server:
            post = API["paths"]["/v1/faults"]["post"]
            ((_, media),) = post["requestBody"]["content"].items()
            body = {"rule": "delay 0s named slow"}
            assert list(faults(body, media["schema"])) == []
            keep(server)
            await server.reloadable.ask("web.shop.svc.cluster.local")
            written = json.dumps(body).encode()
            first, hit = (await server.get("/v1/faults?dry-run=9", "POST", written)).lines
            one_of = post["responses"]["200"]["content"]["application/jsonl"]["schema"]
            for line, schema in zip((first, hit), one_of["oneOf"][1:], strict=True):
                assert list(faults(line, schema)) == []
            (rule,) = (await server.get("/v1/faults", "POST", written)).lines
            assert list(faults(rule, one_of["oneOf"][0])) == []
            assert list(faults(rule, schema_of("/v1/faults"))) == []
            async with server.client.get("http://localhost/v1/faults/hits") as response:
                await server.reloadable.ask("web.shop.svc.cluster.local")
                line = json.loads(await response.content.readline())
            assert list(faults(line, schema_of("/v1/faults/hits"))) == []
            (ended,) = (await server.get("/v1/faults", "DELETE")).lines
            assert list(faults(ended, schema_of("/v1/faults"))) == []

    run(case())


# --- the page ---


@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("fence", CONSOLES, ids=str)
def test_commands_print_what_the_page_says(fence: Fence) -> None:
    (serve,) = (each.body for each in FENCES if each.body.startswith("hsdns serve"))
    manifest = next(each.body for each in FENCES if each.title == "web.yaml")
    Path("web.yaml").write_text(manifest)
    with serving(*serve.split()[1:], "-p", str(free_port())):
        for command, expected in fence.commands:
            printed = follow(command, manifest) if "/v1/changes" in command else ask(command)
            assert as_pattern(expected).fullmatch(printed), printed


def ask(command: str) -> str:
    return subprocess.run(
        command.split(), check=True, text=True, stdout=subprocess.PIPE, timeout=20
    ).stdout


def follow(command: str, manifest: str) -> str:
    """What a stream has until the manifest has changed."""
    with subprocess.Popen(command.split(), stdout=subprocess.PIPE, text=True) as stream:
        try:
            assert stream.stdout is not None
            lines = [stream.stdout.readline()]
            Path("new").write_text(manifest.replace("10.96.7.7", "10.96.7.8"))
            Path("new").rename("web.yaml")
            return "".join([*lines, stream.stdout.readline(), stream.stdout.readline()])
        finally:
            stream.terminate()
