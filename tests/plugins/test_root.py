from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.plugins.hosts import Hosts
from hsdns.plugins.root import Root
from tests.support.plugins.setup import set_up, setup_error


def test_last_of_several_takes_effect() -> None:
    assert set_up(Root, "root /etc\nroot /").root_folder == "/"


def test_a_missing_directory_is_a_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    set_up(Root, f"root {tmp_path}/none", warnings=warnings)
    assert warnings == [
        f"Corefile:2:6: root directory {tmp_path}/none does not exist; relative paths still refer to it"
    ]


def test_relative_paths_of_the_block(tmp_path: Path) -> None:
    text = f"a {{\n hosts list\n root {tmp_path}\n}}\nb {{\n hosts list\n}}\nc {{\n root {tmp_path}\n hosts /list\n}}\n"
    corefile = parse("Corefile", text=text, environ={}, known_directives=frozenset(ORDER))
    plugins = assemble(corefile, warn=lambda sentence: None).plugins
    paths = [plugin.path for plugin in plugins if isinstance(plugin, Hosts)]
    assert paths == [str(tmp_path / "list"), "list", "/list"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "root", 'Corefile:2:1: "root" takes one directory, found 0 arguments', id="none"
        ),
        pytest.param(
            "root /a /b", 'Corefile:2:1: "root" takes one directory, found 2 arguments', id="two"
        ),
        pytest.param(
            "root /a {\n b\n}", 'Corefile:3:2: "root" has no properties, found "b"', id="body"
        ),
        pytest.param(
            "root /dev/null/x",
            'Corefile:2:6: cannot access root directory "/dev/null/x": Not a directory',
            id="no-directory",
        ),
    ],
)
def test_setup_errors(text: str, error: str) -> None:
    assert setup_error(Root, text) == error
