from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from hsdns.cli.offline import (
    CannotTell,
    Problems,
    configure,
    kubernetes_blocks,
    make_runtime,
    wait_for_clusters,
)
from hsdns.corefile.tree import Position, Token


@pytest.mark.parametrize(
    ("level", "message", "errors", "is_denied"),
    [
        (logging.WARNING, "a port is twice", 0, False),
        (logging.ERROR, "cannot list: connection refused", 1, False),
        (logging.ERROR, "cannot list: the server denies access (403); allow it", 1, True),
    ],
)
def test_problems(
    level: int, message: str, errors: int, is_denied: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = Problems()
    problems.handle(logging.LogRecord("hsdns", level, "", 0, message, (), None))
    assert (problems.errors, problems.is_denied) == (errors, is_denied)
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("kind: Namespace\napiVersion: v1\nmetadata: {name: shop}\n", ""),
        ("kind: [\n", "the cluster could not be read, from manifests x.yaml"),
    ],
)
def test_the_cluster_of_a_source(
    manifest: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(manifest)
    words = tuple(Token(word, Position("-source", 0, 0)) for word in ("manifests", "x.yaml"))
    configuration, problems = configure(None, words)
    blocks = kubernetes_blocks(configuration)
    assert [each.watch.reads_only for each in blocks] == [True]

    async def read() -> str:
        runtime = make_runtime(configuration)
        try:
            for block in blocks:
                await block.start(runtime)
            await wait_for_clusters(runtime, blocks)
        except CannotTell as error:
            return str(error)
        finally:
            for block in blocks:
                await block.stop()
            await runtime.tasks.cancel()
        return ""

    assert asyncio.run(read()) == sentence
    assert bool(problems.errors) is bool(sentence)
