from __future__ import annotations

import dataclasses
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns.plugins.python import module
from hsdns.plugins.python.module import load, source_file


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
