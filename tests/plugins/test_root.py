from __future__ import annotations

from pathlib import Path

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.plugins.hosts import Hosts
from hsdns.plugins.root import Root
from tests.support.plugins.setup import set_up


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
