"""The flags: settings.txt has what they mean together, refusals.txt what is refused, from the command to its sentence."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hsdns.load.cli import load
from hsdns.load.cli.load import Load, in_words, questions_of
from hsdns.load.cli.settings import LoadSettings, read_settings
from hsdns.load.cluster.job import Job, config_map, packed
from hsdns.load.questions import Questions
from hsdns.load.report import encode
from hsdns.load.send import probe
from hsdns.plugins.kubernetes import Kubernetes
from tests.load.captures import SECOND, packet, pcap
from tests.load.clusters import with_block
from tests.load.test_replay import WEB, query
from tests.load.test_report import part, report, results
from tests.support.tables import lines, values

TABLES = Path(__file__).with_name("tables.txt")

CAPTURE = pcap([(at * SECOND, packet(query(WEB), client=at)) for at in range(1, 4)])
A, STALE = encode(report(results())), encode(part(1, 2, results(stale=True)))
FILES: dict[str, str | bytes] = {
    "c": CAPTURE, "cut": CAPTURE[:-1], "q.txt": "www.a.test A\n", "bad.json": "hello", "old.json": '{"format": "hsdns load 1"}',
    "a.json": A, "b.json": A, "0.json": encode(part(0, 2)), "1.json": encode(part(1, 2)), "stale.json": STALE,
    "web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n",
    "whoami": ". {\n    bind 127.0.0.1\n    whoami\n}\n", "kubernetes": "cluster.local {\n    kubernetes cluster.local\n}\n",
    "two": "cluster.local {\n    kubernetes cluster.local\n}\nb.test {\n    kubernetes b.test\n}\n",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the tables name, where a process may have 256 descriptors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "EACH", 0.05)
    monkeypatch.setattr(probe, "PAUSE", 0.0)
    monkeypatch.setattr(load, "raise_limit", lambda: None)
    monkeypatch.setattr(load, "descriptor_limit", lambda: 256)
    monkeypatch.delenv("JOB_COMPLETION_INDEX", raising=False)
    for name, content in FILES.items():
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


def settings(words: str | Sequence[str]) -> LoadSettings:
    flags = Load.parse(shlex.split(words) if isinstance(words, str) else list(words))
    assert flags is not None
    return read_settings(flags)


def rows(name: str) -> list[list[str]]:
    """The rows of a table: words, and the lines after => that belong to them."""
    text = "\n".join(lines(Path(__file__).with_name(name)))
    return [row.split("\n=> ") for row in re.split(r"\n(?!=> )", text)]


@pytest.mark.parametrize("row", rows("settings.txt"), ids=lambda row: row[0])
def test_settings(row: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words, *expected = row
    found, said = settings(words), []
    for line in expected:
        value: Any = found
        path = line.partition(" = ")[0]
        for each in path.split("."):
            value = value[int(each)] if each.isdigit() else getattr(value, each)
        said.append(f"{path} = {value!r}")
    assert said == expected
    broken = "cut ends in packet 3; what is before is replayed\n"
    assert capsys.readouterr().err == (broken if "-replay-broken" in words else "")


@pytest.mark.sockets
@pytest.mark.parametrize("row", rows("refusals.txt"), ids=lambda row: row[0])
def test_refused(row: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence that ends with ... is the beginning of what is said."""
    words, sentence = row
    assert Load.main(shlex.split(words)) == 2
    out, err = capsys.readouterr()
    (said,) = err.splitlines()
    begin = sentence.removesuffix("...")
    assert (out, said if begin == sentence else said[: len(begin)]) == ("", begin)


@pytest.mark.parametrize(("words", "status", "printed"), values(TABLES, "reports that were kept"))
def test_reports_that_were_kept(
    words: str, status: int, printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Merged, or beside each other; - is a list of ConfigMaps, as kubectl prints it."""
    Path("x").mkdir()
    Path("x/a.json").write_bytes(A)
    job = Job("load", "4711", 2)
    items = [
        config_map(f"load-{at}", "load", job) | {"binaryData": packed(Path(f"{at}.json").read_bytes())}
        for at in "01"
    ]  # fmt: skip
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listed)))
    assert Load.main(words.split()) == status
    assert printed in capsys.readouterr().out
    for file in [each for each in ("all.json", "all.html") if each in words]:
        assert "127.0.0.1 port 53" in Path(file).read_text()


def test_the_pods_of_a_cluster() -> None:
    given = settings(
        "--source synthetic --pods 3 --resolvers glibc=2,go=1 --forms full --external a.test --resolv-options ndots:2 --node-search node.test --seed 5"
    )

    async def choose(block: Kubernetes) -> Questions:
        return questions_of(given, [block])

    found: Questions = with_block(choose)
    assert (found.all, found.seed) == ([], 5)
    plan = found.pods
    assert plan is not None
    assert (plan.count, plan.namespaces, plan.domain, plan.seed) == (3, ["ns-0"], "cluster.local", 5)  # fmt: skip
    assert plan.resolv_confs == [
        "search ns-0.svc.cluster.local svc.cluster.local cluster.local node.test\n"
        "nameserver 192.0.2.53\noptions ndots:2\n"
    ]
    assert len(plan.targets) == len(plan.weights) == 2 + 2 + 8 + 4 + 1
    assert in_words(given, found) == (
        "lookups of 3 pods (glibc 2, go 1) in 1 namespace, 17 names: service, headless, endpoint, absent, external"
    )
