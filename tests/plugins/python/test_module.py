from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import pickle
import sys
import sysconfig
import types
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import hsdns
from hsdns.plugins.python import fault, module, ttl_fault
from hsdns.plugins.python.module import OwnCode, Turns, load, place_of, source_file
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from tests.support.coroutines.event_loops import run


@pytest.fixture(autouse=True)
def _modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore sys.path and sys.modules."""
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(module, "_own_folders", set())
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def load_error(name: str, folder: Path) -> str:
    with pytest.raises(ImportError) as caught:
        load(name, folder)
    return str(caught.value)


def test_a_file_in_the_directory_of_the_corefile(tmp_path: Path) -> None:
    path = write(tmp_path, "preview_a.py", "VALUE = 1\n")
    module = load("preview_a", tmp_path)
    assert module.VALUE == 1
    assert module.__file__ == str(path)
    assert module.__name__ == "preview_a"


def test_a_file_is_loaded_again_each_time(tmp_path: Path) -> None:
    """Even with the same size and within a second, the resolution of time stamps in byte code."""
    write(tmp_path, "preview_b.py", "VALUE = 1\n")
    first = load("preview_b", tmp_path)
    write(tmp_path, "preview_b.py", "VALUE = 2\n")
    second = load("preview_b", tmp_path)
    assert (first.VALUE, second.VALUE) == (1, 2)
    assert sys.modules["preview_b"] is second


def test_a_failed_load_leaves_the_previous_module(tmp_path: Path) -> None:
    write(tmp_path, "preview_c.py", "VALUE = 1\n")
    first = load("preview_c", tmp_path)
    write(tmp_path, "preview_c.py", "raise ValueError('no')\n")
    load_error("preview_c", tmp_path)
    assert sys.modules["preview_c"] is first


def test_a_failed_load_leaves_no_module(tmp_path: Path) -> None:
    write(tmp_path, "preview_d.py", "raise ValueError('no')\n")
    load_error("preview_d", tmp_path)
    assert "preview_d" not in sys.modules


def test_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path, "preview_e.py", "VALUE = 1\n")
    load("preview_e", tmp_path)
    assert os.listdir(tmp_path) == ["preview_e.py"]


def test_dataclasses_and_pickle_find_the_module(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "@dataclass\n"
        "class Thing:\n"
        "    KIND: ClassVar[int] = 1\n"
        "    size: int\n"
    )
    write(tmp_path, "preview_f.py", text)
    thing = load("preview_f", tmp_path).Thing(3)
    assert dataclasses.asdict(thing) == {"size": 3}
    assert pickle.loads(pickle.dumps(thing)) == thing


def test_a_module_imports_others_from_its_directory(tmp_path: Path) -> None:
    write(tmp_path, "preview_neighbour.py", "VALUE = 7\n")
    write(tmp_path, "preview_g.py", "import preview_neighbour\nVALUE = preview_neighbour.VALUE\n")
    assert load("preview_g", tmp_path).VALUE == 7
    load("preview_g", tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    assert sys.path[-1] == str(tmp_path)


def test_a_package_in_the_directory_of_the_corefile(tmp_path: Path) -> None:
    write(tmp_path, "previews_h/__init__.py", "")
    write(tmp_path, "previews_h/handlers.py", "VALUE = 8\n")
    assert load("previews_h.handlers", tmp_path).VALUE == 8


def test_an_installed_module_is_imported_once(tmp_path: Path) -> None:
    installed = sys.modules["hsdns.plugins.python.module"]
    assert load("hsdns.plugins.python.module", tmp_path) is installed


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        pytest.param("json", "json/__init__.py", id="standard-library-loaded"),
        pytest.param("antigravity", "of Python itself", id="standard-library"),
        pytest.param("dnslib", "dnslib/__init__.py", id="installed"),
        pytest.param("sys", "of Python itself", id="built-in"),
    ],
)
def test_a_file_with_the_name_of_another_module(tmp_path: Path, name: str, origin: str) -> None:
    path = write(tmp_path, f"{name}.py", "VALUE = 1\n")
    message = load_error(name, tmp_path)
    assert message.startswith(f"{path} has the name of another module (")
    assert origin in message
    assert message.endswith(f"); give the file another name, such as {name}_dns.py")


def test_one_name_in_two_directories(tmp_path: Path) -> None:
    """Two imported files of a Corefile may each have a handler in their directory."""
    for folder, value in (("one", 1), ("two", 2)):
        write(tmp_path, f"{folder}/preview_i.py", f"VALUE = {value}\n")
    assert load("preview_i", tmp_path / "one").VALUE == 1
    assert load("preview_i", tmp_path / "two").VALUE == 2


def test_the_directory_may_already_be_on_sys_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, "preview_j.py", "VALUE = 1\n")
    assert load("preview_j", tmp_path).VALUE == 1
    write(tmp_path, "preview_j.py", "VALUE = 2\n")
    assert load("preview_j", tmp_path).VALUE == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a = 1\nb = c\n", "NameError: name 'c' is not defined (FILE:2)", id="name"),
        pytest.param("a = (\n", "SyntaxError: '(' was never closed (FILE:1)", id="syntax"),
        pytest.param("raise SystemExit(3)\n", "SystemExit: 3 (FILE:1)", id="exit"),
        pytest.param("raise ValueError('one\\ntwo')\n", "ValueError: one (FILE:1)", id="lines"),
        pytest.param(
            "import hsdns_nowhere\n",
            "ModuleNotFoundError: No module named 'hsdns_nowhere' (FILE:1)",
            id="import",
        ),
        pytest.param("\0", "SyntaxError: source code string cannot contain null bytes", id="null"),
        pytest.param(
            "def f():\n    return 1 / 0\nf()\n", "ZeroDivisionError: division by zero (FILE:2)", id="inner"
        ),
    ],
)  # fmt: skip
def test_exceptions_of_a_module(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, "preview_k.py", text)
    found = load_error("preview_k", tmp_path)
    if "null" in message:  # Python 3.11 raises ValueError
        assert "null bytes" in found
    else:
        assert found == message.replace("FILE", str(path))


def test_a_missing_module(tmp_path: Path) -> None:
    message = load_error("preview_nowhere", tmp_path)
    assert (
        message
        == f"there is no preview_nowhere.py in {tmp_path}, and no module preview_nowhere is installed"
    )
    assert load_error("preview_nowhere.inner", tmp_path) == (
        f"there is no module preview_nowhere in {tmp_path}, and none is installed"
    )
    assert load_error("json.nowhere", tmp_path) == (
        f"there is no module json.nowhere in {tmp_path}, and none is installed"
    )


def test_the_innermost_line_of_the_user_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "preview_l.py", "import ipaddress\n\nipaddress.ip_address('x')\n")
    assert load_error("preview_l", tmp_path) == (
        f"ValueError: 'x' does not appear to be an IPv4 or IPv6 address ({path}:3)"
    )


def test_a_change_of_a_file_is_told_once(tmp_path: Path) -> None:
    path = write(tmp_path, "preview_m.py", "VALUE = 1\n")
    source = source_file(load("preview_m", tmp_path))
    assert source is not None
    assert not source.has_changed()
    path.touch()
    assert not source.has_changed()
    for text in ("VALUE = 2\n", "VALUE = (\n", "VALUE = 1\n"):
        path.write_text(text)
        assert [source.has_changed(), source.has_changed()] == [True, False]
    path.unlink()
    assert [source.has_changed(), source.has_changed()] == [True, False]


def test_an_installed_module_is_not_watched(tmp_path: Path) -> None:
    assert source_file(load("hsdns.plugins.python.module", tmp_path)) is None


class Clock:
    """Time that goes on only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


Body = Callable[[Clock, Turns], Coroutine[Any, Any, Any]]


def turns_of(body: Body) -> tuple[Turns, Any]:
    """Await a body through Turns, in a task beside others that take time, too."""
    clock = Clock()

    async def test() -> tuple[Turns, Any]:
        turns = Turns(clock)
        result = await turns.own(body(clock, turns))
        return turns, result

    return run(test())


async def other(clock: Clock) -> str:
    clock.work(5)
    await asyncio.sleep(0)
    clock.work(5)
    return "reply"


async def waits(clock: Clock, turns: Turns) -> str:
    clock.work(0.25)
    await asyncio.sleep(0)
    clock.work(0.5)
    await asyncio.create_task(other(clock))
    clock.work(0.125)
    return "done"


async def asks(clock: Clock, turns: Turns) -> Any:
    clock.work(0.25)
    reply = await turns.elsewhere(other(clock))
    clock.work(0.5)
    return reply


async def asks_beside(clock: Clock, turns: Turns) -> Any:
    asked = asyncio.gather(turns.elsewhere(other(clock)), turns.elsewhere(other(clock)))
    clock.work(0.5)
    return (await asked)[0]


@pytest.mark.parametrize(
    ("body", "longest", "result"),
    [(waits, 0.5, "done"), (asks, 0.5, "reply"), (asks_beside, 0.5, "reply")],
)
def test_the_longest_turn(body: Body, longest: float, result: str) -> None:
    turns, found = turns_of(body)
    assert (turns.longest, found) == (longest, result)


def test_exceptions_and_timeouts_pass() -> None:
    async def raises(clock: Clock, turns: Turns) -> None:
        clock.work(1)
        raise KeyError("no")

    async def catches(clock: Clock, turns: Turns) -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            clock.work(2)
            return "late"
        return "never"

    with pytest.raises(KeyError):
        turns_of(raises)
    turns, result = turns_of(catches)
    assert (turns.longest, result) == (2, "late")


def test_closing_closes_the_call() -> None:
    ended = []

    async def hangs() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    async def outer(call: Awaitable[Any]) -> None:
        await call

    driven = outer(Turns(Clock()).own(hangs()))
    driven.send(None)
    driven.close()
    assert ended == [True]


def test_the_line_of_a_call_that_is_over() -> None:
    async def body() -> int:
        await asyncio.sleep(0)
        return 1  # here

    async def test() -> tuple[Turns, types.FrameType]:
        call = body()
        assert isinstance(call, types.CoroutineType)
        frame = call.cr_frame
        assert frame is not None
        turns = Turns(map(float, count()).__next__, frame)
        await turns.own(call)
        return turns, frame

    turns, frame = run(test())
    assert place_of(frame) == f"{__file__}:{body.__code__.co_firstlineno + 2}"
    assert turns.place == f"{__file__}:{body.__code__.co_firstlineno + 1}"


OWNER = Name.from_text("www.example.org.")
A = RR(OWNER, RRType.A, 30, b"\xc0\x00\x02\x01")


def changed(**fields: Any) -> RR:
    """Return the record with fields of any type."""
    return A._replace(**fields)


ANSWER = "returned a Reply whose answer[0]"


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        pytest.param(Reply(), "", id="empty"),
        pytest.param(Reply(dropped=True), "", id="dropped"),
        pytest.param(Reply(rcode=Rcode.NXDOMAIN, answer=(A, changed(ttl=2**31)), aa=True), "", id="records"),
        pytest.param(Reply(answer=[A]), "", id="a-list"),  # type: ignore[arg-type]  # it can be sent
        pytest.param(Reply(additional=(RR(OWNER, RRType.TXT, 0, b"\1x"),)), "", id="text"),
        pytest.param(None, "returned NoneType, not a Reply", id="nothing"),
        pytest.param(Reply(rcode="NXDOMAIN"), "returned a Reply with rcode 'NXDOMAIN'; write one such as Rcode.NXDOMAIN", id="rcode"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(rcode=-1), "returned a Reply with rcode -1; write one such as Rcode.NXDOMAIN", id="negative-rcode"),
        pytest.param(Reply(answer=A), "returned a Reply whose answer is RR, not a tuple of records", id="one-record"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(authority=None), "returned a Reply whose authority is NoneType, not a tuple of records", id="no-section"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(answer=("192.0.2.1",)), f"{ANSWER} is str, not a record; make one with record()", id="text-as-record"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(answer=(changed(owner="www."),)), f"{ANSWER} has the owner 'www.', not a Name; write Name.from_text(...)", id="owner"),
        pytest.param(Reply(answer=(changed(rrtype="A"),)), f"{ANSWER} has type 'A' and class 1; both are numbers, such as RRType.A", id="type"),
        pytest.param(Reply(answer=(changed(ttl=-5),)), f"{ANSWER} has TTL -5; a TTL is a whole number of seconds from 0 to 4294967295", id="negative-ttl"),
        pytest.param(Reply(answer=(changed(ttl=1.5),)), f"{ANSWER} has TTL 1.5; a TTL is a whole number of seconds from 0 to 4294967295", id="ttl-with-a-fraction"),
        pytest.param(Reply(answer=(changed(rdata="192.0.2.1"),)), f"{ANSWER} has rdata of str, not octets; make the record with record()", id="address-as-text"),
        pytest.param(Reply(answer=(changed(rdata=b"192.0.2.1"),)), f"{ANSWER} is of type A, whose address has 4 octets, and has 9; make the record with record()", id="address-of-text"),
        pytest.param(Reply(additional=(A, changed(rrtype=RRType.AAAA))), "returned a Reply whose additional[1] is of type AAAA, whose address has 16 octets, and has 4; make the record with record()", id="ipv4-as-aaaa"),
    ],
)  # fmt: skip
def test_faults(result: object, sentence: str) -> None:
    assert fault(result) == sentence


@pytest.mark.parametrize(("ttl", "is_right"), [(0, True), (2**32 - 1, True), (2**32, False), (-1, False), ("5", False)])  # fmt: skip
def test_ttl(ttl: object, is_right: bool) -> None:
    assert (ttl_fault(ttl) == "") is is_right


LIBRARY = sysconfig.get_path("stdlib")


@pytest.mark.parametrize(
    ("module", "file", "expected"),
    [
        pytest.param("mine", "/etc/coredns/mine.py", True, id="beside-the-corefile"),
        pytest.param("mine", "/etc/coredns/other.py", True, id="what-it-imports"),
        pytest.param("mine", "/etc/coredns/.venv/lib/python3/site-packages/lib/a.py", False, id="installed"),
        pytest.param("mine.a", "/usr/lib/python3/dist-packages/mine/b.py", True, id="installed-with-the-handler"),
        pytest.param("mine", "/usr/lib/python3/site-packages/mine.py", True, id="an-installed-file"),
        pytest.param("mine", "/usr/lib/python3/site-packages/mines/a.py", False, id="another-name"),
        pytest.param("mine", os.path.abspath(hsdns.__file__), False, id="this-server"),
        pytest.param("mine", f"{LIBRARY}/json/decoder.py", False, id="python"),
        pytest.param("mine", "<frozen importlib._bootstrap>", False, id="no-file"),
    ],
)  # fmt: skip
def test_which_files_are_own(module: str, file: str, expected: bool) -> None:
    assert OwnCode(module).contains(file) is expected


def test_the_innermost_own_line() -> None:
    own = OwnCode("tests")
    try:
        json.loads("{")
    except ValueError as error:
        trace = error.__traceback__
        assert trace is not None
        place = f"{__file__}:{trace.tb_lineno}"
        text = "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
        assert own.describe(error, "elsewhere:1") == f"{text} ({place})"
        assert own.place(trace) == place


def test_an_exception_without_an_own_line() -> None:
    own = OwnCode("tests")
    assert own.describe(ValueError("no")) == "ValueError: no"
    assert own.describe(ValueError("no"), "mine.py:3") == "ValueError: no (mine.py:3)"
    assert own.describe(ValueError()) == "ValueError"
    noted = ValueError("no")
    noted.add_note("a note")
    assert own.describe(noted) == "ValueError: no"
