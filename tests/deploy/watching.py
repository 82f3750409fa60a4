"""A server of a Corefile, which watches the API of a cluster."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import yaml

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.server.lifecycle import Server
from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port


class Watching(NamedTuple):
    """The server, its cluster, and the ports by the words that stand for them."""

    server: Server
    api: FakeApi
    ports: Mapping[str, int]


@asynccontextmanager
async def watching(
    folder: Path, text: str, objects: str, *, environ: Mapping[str, str], streaming: bool = True
) -> AsyncIterator[Watching]:
    """In the Corefile URL stands for the API server, and PORT_A and the like for free ports; `objects` are in YAML."""
    async with FakeApi(streaming=streaming) as api:
        for each in yaml.safe_load_all(objects):
            api.apply(each)
        ports = {word: free_port() for word in set(re.findall(r"PORT_\w+", text))}
        for word, port in {"URL": api.url, **ports}.items():
            text = text.replace(word, str(port))
        (folder / "Corefile").write_text(text)
        given = {name: re.sub(r"PORT_\w+", lambda word: str(ports[word[0]]), value) for name, value in environ.items()}  # fmt: skip
        server = Server(
            lambda: parse(str(folder / "Corefile"), environ=given, known_directives=ORDER),
            lambda corefile: assemble(corefile, default_port=53, warn=lambda sentence: None),
        )
        await server.start()
        try:
            yield Watching(server, api, ports)
        finally:
            await server.close()
