"""How modules of handlers are loaded and watched, whose turns are measured, and which lines are the user's own."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import hsdns
from hsdns.plugins.python import module
from hsdns.plugins.python.module import OwnCode, Turns, load, source_file
from tests.support.coroutines.event_loops import run
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")


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


# --- loading ---


def test_a_file_is_loaded_again_each_time(tmp_path: Path) -> None:
    """Even with the same size and within a second, the resolution of time stamps in byte code; nothing is written."""
    path = write(tmp_path, "preview_a.py", "VALUE = 1\n")
    first = load("preview_a", tmp_path)
    assert (first.VALUE, first.__file__, first.__name__) == (1, str(path), "preview_a")
    write(tmp_path, "preview_a.py", "VALUE = 2\n")
    second = load("preview_a", tmp_path)
    assert (first.VALUE, second.VALUE) == (1, 2)
    assert sys.modules["preview_a"] is second
    assert os.listdir(tmp_path) == ["preview_a.py"]


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_failed_load_leaves_the_previous_module_or_none(tmp_path: Path, is_loaded: bool) -> None:
    write(tmp_path, "preview_b.py", "VALUE = 1\n")
    first = load("preview_b", tmp_path) if is_loaded else None
    write(tmp_path, "preview_b.py", "raise ValueError('no')\n")
    load_error("preview_b", tmp_path)
    assert sys.modules.get("preview_b") is first


def test_a_module_imports_others_from_its_directory(tmp_path: Path) -> None:
    write(tmp_path, "preview_neighbour.py", "VALUE = 7\n")
    write(tmp_path, "preview_d.py", "import preview_neighbour\nVALUE = preview_neighbour.VALUE\n")
    assert load("preview_d", tmp_path).VALUE == 7
    load("preview_d", tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    assert sys.path[-1] == str(tmp_path)


def test_a_package_in_the_directory_of_the_corefile(tmp_path: Path) -> None:
    write(tmp_path, "previews_e/__init__.py", "")
    write(tmp_path, "previews_e/handlers.py", "VALUE = 8\n")
    assert load("previews_e.handlers", tmp_path).VALUE == 8


def test_an_installed_module_is_imported_once_and_not_watched(tmp_path: Path) -> None:
    found = load("hsdns.plugins.python.module", tmp_path)
    assert found is sys.modules["hsdns.plugins.python.module"]
    assert source_file(found) is None


@pytest.mark.parametrize(("name", "origin"), values(TABLES, "a file with the name of another module"))  # fmt: skip
def test_a_file_with_the_name_of_another_module(tmp_path: Path, name: str, origin: str) -> None:
    path = write(tmp_path, f"{name}.py", "VALUE = 1\n")
    message = load_error(name, tmp_path)
    assert message.startswith(f"{path} has the name of another module (")
    assert origin in message
    assert message.endswith(f"); give the file another name, such as {name}_dns.py")


def test_one_name_in_two_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two imported files of a Corefile may each have a handler in their directory, which may be on sys.path already."""
    monkeypatch.syspath_prepend(tmp_path / "two")
    for folder, value in (("one", 1), ("two", 2), ("two", 3)):
        write(tmp_path, f"{folder}/preview_f.py", f"VALUE = {value}\n")
        assert value == load("preview_f", tmp_path / folder).VALUE


@pytest.mark.parametrize(("text", "message"), columns(TABLES, "exceptions of a module"))
def test_exceptions_of_a_module_have_the_innermost_line_of_the_user(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path, "preview_g.py", text)
    assert load_error("preview_g", tmp_path) == message.replace("FILE", str(path))


def test_a_module_with_null_bytes(tmp_path: Path) -> None:
    write(tmp_path, "preview_h.py", "\0")
    assert "null bytes" in load_error("preview_h", tmp_path)


@pytest.mark.parametrize(("name", "message"), columns(TABLES, "modules that are missing"))
def test_a_missing_module(tmp_path: Path, name: str, message: str) -> None:
    assert load_error(name, tmp_path) == message.replace("FOLDER", str(tmp_path))


def test_a_change_of_a_file_is_told_once(tmp_path: Path) -> None:
    path = write(tmp_path, "preview_i.py", "VALUE = 1\n")
    source = source_file(load("preview_i", tmp_path))
    assert source is not None
    path.touch()
    assert not source.has_changed()
    for text in ("VALUE = 2\n", "VALUE = (\n", "VALUE = 1\n"):
        path.write_text(text)
        assert [source.has_changed(), source.has_changed()] == [True, False]
    path.unlink()
    assert [source.has_changed(), source.has_changed()] == [True, False]


# --- turns ---


class Clock:
    """Time that goes on only where a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


Body = Callable[[Clock, Turns], Coroutine[Any, Any, Any]]


def turns_of(body: Body) -> tuple[float, Any]:
    """Await a body through Turns, in a task beside others that take time, too; the longest turn, and the result."""
    clock = Clock()

    async def test() -> tuple[float, Any]:
        turns = Turns(clock)
        result = await turns.own(body(clock, turns))
        return turns.longest, result

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


async def times_out(clock: Clock, turns: Turns) -> str:
    try:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    except TimeoutError:
        clock.work(2)
        return "late"
    return "never"


@pytest.mark.parametrize(
    ("body", "longest", "result"),
    [
        (waits, 0.5, "done"),
        (asks, 0.5, "reply"),
        (asks_beside, 0.5, "reply"),
        (times_out, 2, "late"),
    ],
)
def test_the_longest_turn(body: Body, longest: float, result: str) -> None:
    assert turns_of(body) == (longest, result)


def test_exceptions_pass() -> None:
    async def raises(clock: Clock, turns: Turns) -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        turns_of(raises)


# --- whose code ---

LIBRARY = sysconfig.get_path("stdlib")


@pytest.mark.parametrize(
    ("module", "file", "expected"),
    [
        ("mine", "/etc/coredns/mine.py", True),
        ("mine", "/etc/coredns/other.py", True),
        ("mine", "/etc/coredns/.venv/lib/python3/site-packages/lib/a.py", False),
        ("mine.a", "/usr/lib/python3/dist-packages/mine/b.py", True),
        ("mine", "/usr/lib/python3/site-packages/mine.py", True),
        ("mine", "/usr/lib/python3/site-packages/mines/a.py", False),
        ("mine", os.path.abspath(hsdns.__file__), False),
        ("mine", f"{LIBRARY}/json/decoder.py", False),
        ("mine", "<frozen importlib._bootstrap>", False),
    ],
)
def test_which_files_are_own(module: str, file: str, expected: bool) -> None:
    assert OwnCode(module).contains(file) is expected


@pytest.mark.parametrize(
    ("error", "otherwise", "text"),
    [
        (ValueError("no"), "", "ValueError: no"),
        (ValueError("no"), "mine.py:3", "ValueError: no (mine.py:3)"),
        (ValueError(), "", "ValueError"),
    ],
)
def test_an_exception_without_an_own_line(error: ValueError, otherwise: str, text: str) -> None:
    error.add_note("a note")
    assert OwnCode("tests").describe(error, otherwise) == text
