"""The twins are equal: same names, same signatures, and the same results of the same operations in any order.

The choice between the twins.

An object that says it has a billion items costs what it has, not the process.
"""

import __future__

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given, settings

from hsdns.fastpath import _python
from hsdns.fastpath.batch import PortableBatch
from hsdns.fastpath.table import MAX_ROUNDS
from hsdns.wire.edns import Edns
from hsdns.wire.framing import frame
from hsdns.wire.message import AD, CD, RD, Reply, nodata, nxdomain, unwritten
from tests import strategies
from tests.fastpath.twins import HAS_NATIVE, NATIVE, V4, TableUnderTest, addresses, ask, soa
from tests.support.effort import tries

ONLY_NATIVE = {"MissQueue": {"fileno"}}  # the loop itself waits for datagrams in Python

needs_native = pytest.mark.skipif(
    not HAS_NATIVE, reason=f"{NATIVE} is not built, so there is nothing to compare with"
)


def test_names(twin: ModuleType) -> None:
    for name in _python.__all__:
        python, compiled = getattr(_python, name), getattr(twin, name)
        assert getattr(compiled, "_fields", None) == getattr(python, "_fields", None)
        public = {each for each in dir(compiled) if not each.startswith("_")}
        if name not in (
            "ClusterNames",
            "AnswerTable",
            "Tap",
            "Versions",
        ):  # the parts of the Python twin see more of each other
            only_native = ONLY_NATIVE.get(name, set())
            assert public - only_native == {
                each for each in dir(python) if not each.startswith("_")
            }
        else:
            assert public <= set(dir(python))


def declared() -> dict[str, Any]:
    """The contents of _native.pyi, which is Python like any other module."""
    path = Path(_python.__file__).with_name("_native.pyi")
    found: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    exec(compile(path.read_text(), str(path), "exec", flags=flags, dont_inherit=True), found)
    return found


def parameters(callee: Callable[..., object]) -> list[tuple[str, str, object]]:
    """Name, kind and default of each parameter, without self."""
    return [
        (each.name, each.kind.description, each.default)
        for each in inspect.signature(callee).parameters.values()
        if each.name != "self"
    ]


DECLARED = declared()
CLASSES = [name for name in DECLARED["__all__"] if isinstance(DECLARED[name], type)]


def compare_signatures(found: type, stub: type) -> None:
    assert parameters(found) == parameters(stub)
    for name, wanted in vars(stub).items():
        if isinstance(wanted, property):
            assert not callable(getattr(found, name))
        elif isinstance(wanted, FunctionType) and not name.startswith("_"):
            if name in ONLY_NATIVE.get(stub.__name__, ()) and not hasattr(found, name):
                continue
            assert parameters(getattr(found, name)) == parameters(wanted), name


@pytest.mark.parametrize("name", CLASSES)
def test_signatures(twin: ModuleType, name: str) -> None:
    """The parameters of every class and method are those that _native.pyi declares."""
    if name in _python.__all__ or twin.__name__ == NATIVE:
        compare_signatures(getattr(twin, name), DECLARED[name])
    else:
        assert not hasattr(twin, name)


def test_signatures_of_the_portable_batch() -> None:
    compare_signatures(PortableBatch, DECLARED["Batch"])


def test_platforms_without_batches_have_the_portable_one() -> None:
    code = (
        "import os, sys; os.environ['HSDNS_NO_EXTENSIONS'] = '1'; import ctypes; "
        "ctypes.CDLL = lambda *a, **k: object(); from hsdns import fastpath; print(fastpath.Batch.__name__)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "PortableBatch\n"


def test_one_eviction_steps_over_a_bounded_number_of_entries_in_use() -> None:
    table = TableUnderTest(_python)
    queries = [ask(f"name-{number:03}.default.svc.cluster.local.") for number in range(101)]
    for query in queries[:-1]:
        table.store(query, addresses(query))
        table.lookup(query)
    table.table.set_capacity(table.table.statistics().octets)
    table.store(queries[-1], addresses(queries[-1]))
    gone = [at for at, query in enumerate(queries) if table.table.uses(query) is None]
    assert gone == [MAX_ROUNDS]


@pytest.mark.parametrize("is_stale", [False, True])
def test_a_use_puts_off_the_eviction_of_what_still_holds(is_stale: bool) -> None:
    under_test, queries = (
        TableUnderTest(_python),
        [ask(f"name-{number}.org.") for number in range(4)],
    )
    for query in queries[:3]:
        under_test.store(
            query, addresses(query), dependencies=[(1, 0)] if query == queries[0] else []
        )
    for _ in range(5):
        assert under_test.lookup(queries[0]) is not None
    if is_stale:
        under_test.versions.bump(1)
    under_test.table.set_capacity(under_test.table.statistics().octets)
    under_test.store(queries[3], addresses(queries[3]))
    gone = [under_test.table.uses(query) is None for query in queries]
    assert gone == [is_stale, not is_stale, False, False]


NAMES = (
    "web.default.svc.cluster.local.", "WEB.default.svc.cluster.local.", "db.default.svc.cluster.local.",
    "pod-0.db.default.svc.cluster.local.", "x.web.default.svc.cluster.local.", "a.b.web.default.svc.cluster.local.",
    "_a._b.db.default.svc.cluster.local.", "c.a.b.db.default.svc.cluster.local.", "gone.default.svc.cluster.local.", "a.other.svc.cluster.local.",
    "x.org.svc.cluster.local.", "www.example.org.cluster.local.", "svc.cluster.local.", "cluster.local.",
    "a.pod.cluster.local.", "1-2-3-4.default.pod.cluster.local.", "x.1-2-3-4.default.pod.cluster.local.", "fd00--1.default.pod.cluster.local.", "excluded.cluster.local.", "x.excluded.cluster.local.", "x.sub.cluster.local.", "example.org.",
)  # fmt: skip
EDNS = (
    None, None, Edns(512), Edns(1232), Edns(1232, do=True), Edns(600, options=((10, b"12345678"),)),
    Edns(4096, options=((8, b"dropped"), (12, bytes(30)), (65001, b""), (3, b""))), Edns(1232, version=1),
)  # fmt: skip


def draw_query(chance: Random) -> bytes:
    """Mostly one of a few questions, so that there are hits."""
    if chance.random() < 0.7:
        return ask(
            chance.choice(NAMES[:3]), 1, chance.randrange(65536), chance.choice([RD, RD, RD | AD, 0]),
            chance.choice([None, None, Edns(1232), Edns(600, options=((10, b"12345678"),))]),
        )  # fmt: skip
    return ask(
        chance.choice(NAMES), chance.choice([1, 1, 28, 28, 16, 33]), chance.randrange(65536),
        chance.choice([0, RD, RD, RD, RD | AD, RD | CD, 0x0200]), chance.choice(EDNS),
    )  # fmt: skip


def draw_reply(chance: Random, query: bytes) -> Reply | bytes:
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(60))
    several = addresses(query, chance.randrange(1, 60), chance.choice([1, 28]))
    return chance.choice(
        [several] * 6 + [nodata(soa()), nodata(soa()), nxdomain(soa()), Reply(), unwritten(2), several.replace(tc=True)]
    )  # fmt: skip


def operate(chance: Random, under_test: TableUnderTest, start: float) -> Any:
    """Do one thing; draws the same numbers whatever the under_test returns."""
    what = chance.choice(
        (
            "store " * 5
            + "lookup " * 8
            + "framed " * 2
            + "bump serial names set_template clear counts"
        ).split()
    )
    if what == "store":
        query = draw_query(chance)
        reply = draw_reply(chance, query)
        indexes = [chance.randrange(6) for _ in range(chance.choice([0, 1, 1, 2, 2, 3, 3, 9]))]
        late = chance.random() < 0.1
        dependencies = [(index, under_test.versions.read(index) - (late and under_test.versions.read(index) > 0)) for index in indexes]  # fmt: skip
        return under_test.store(
            query, reply, dependencies=dependencies, group=chance.randrange(4), rotate=chance.random() < 0.5,
            mark_ttl=chance.choice([-1, 0, 1000]), max_payload=chance.choice([512, 600, 65535]), names=chance.choice([under_test.names] * 5 + [None]),
        )  # fmt: skip
    if what == "lookup":
        query = draw_query(chance)
        limit, v6 = chance.choice([512, 700, 1232, 65535]), chance.random() < 0.3
        now = start + 10_000 * chance.randrange(4)
        peeked = under_test.table.peek(query, now=now)
        replies = [under_test.lookup(query, limit, now, v6) for _ in range(chance.randrange(1, 5))]
        assert (peeked is None) == (replies[0] is None), "it is what the look-up finds"
        return peeked, replies
    if what == "framed":
        stream = b"".join(frame(draw_query(chance)) for _ in range(chance.randrange(6)))
        cut, most = chance.randrange(len(stream) + 2), chance.randrange(5)
        at, limit = chance.choice([0, 0, 0, cut]), chance.choice([0, 300, 65_536])
        return under_test.table.answer_framed(stream[: -cut or None], at, V4, most, limit, start)
    if what == "bump":
        return under_test.versions.bump(chance.randrange(6))
    if what == "serial":
        under_test.names.serial = chance.randrange(1 << 32)
    elif what == "names":
        under_test.names.open = chance.random() < 0.8
        for label in (b"default", b"other"):
            getattr(under_test.names, chance.choice(["add_namespace", "remove_namespace"]))(label)
            for name in (b"web", b"db", b"a"):
                getattr(under_test.names, chance.choice(["add_service", "remove_service"]))(
                    label, name
                )
                for _ in range(2):
                    some = chance.choices([b"\5pod-0", b"\1x", b"\1a\1b"], k=chance.randrange(3))
                    change = chance.choice(["add_labels", "add_labels", "remove_labels"])
                    getattr(under_test.names, change)(label, name, some)
        return len(under_test.names)
    elif what == "set_template":
        return under_test.set_template(chance.randrange(2), chance.choice(NAMES))
    elif what == "clear":
        if chance.random() < 0.2:
            under_test.table.clear()
    else:
        return counted(under_test)
    return None


def counted(under_test: TableUnderTest) -> Any:
    """Counts and statistics, without durations and memory."""
    rows = {
        key: (cells[:35], sum(cells[35:52]), cells[53:])
        for key, cells in under_test.cells().items()
    }
    statistics = under_test.table.statistics()._asdict()
    return rows, {key: value for key, value in statistics.items() if key not in ("octets", "stale")}


@needs_native
@given(strategies.seeds)
@settings(max_examples=tries(30))
def test_any_operations(seed: int) -> None:
    native = pytest.importorskip(NATIVE)
    start = time.monotonic() + 1
    tables_under_test = [TableUnderTest(twin) for twin in (_python, native)]
    for under_test in tables_under_test:
        under_test.add_negative_zone(
            exclusions=("excluded.cluster.local.",), mark_ttl=0, max_payload=600
        )
        under_test.add_negative_zone("sub.cluster.local.")
        under_test.set_template()
    chances = [Random(seed) for _ in tables_under_test]
    for step in range(120):
        python, compiled = (
            operate(chance, under_test, start)
            for chance, under_test in zip(chances, tables_under_test, strict=True)
        )
        assert python == compiled, step
    assert counted(tables_under_test[0]) == counted(tables_under_test[1])


SAY = "from hsdns import fastpath; print(fastpath.IMPLEMENTATION, fastpath.AnswerTable.__module__)"


def said(code: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key != "HSDNS_NO_EXTENSIONS"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | {"PYTHONPATH": ":".join(sys.path)} | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_python_is_chosen_by_the_environment() -> None:
    assert said(SAY, HSDNS_NO_EXTENSIONS="1") == "python hsdns.fastpath.table"


def test_python_is_chosen_where_the_compiled_one_cannot_be_imported() -> None:
    block = "import sys; sys.modules['hsdns.fastpath._native'] = None; "
    assert said(block + SAY) == "python hsdns.fastpath.table"


@pytest.mark.skipif(not HAS_NATIVE, reason="the compiled twin is not built, so it is not chosen")
def test_the_compiled_one_is_chosen_otherwise() -> None:
    assert said(SAY).startswith("rust hsdns.fastpath._native")


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not HAS_NATIVE, reason="the compiled twin is not built, and only it allocates")
def test_no_claim_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fastpath.liars"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) > 60
