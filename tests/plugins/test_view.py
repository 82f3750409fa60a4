from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hsdns.answer_table.capabilities import Cacheable
from hsdns.answer_table.policy import BlockPolicy
from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError
from hsdns.plugins import ORDER
from hsdns.plugins.view import View
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.dialogue import make_question
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.setup import set_up
from tests.support.tables import columns


@pytest.mark.parametrize(("row", "taken"), columns(Path(__file__).with_name("tables.txt"), "view"))
def test_enter(row: str, taken: str) -> None:
    question, _, lines = row.partition(": ")
    plugin = set_up(View, "view inside {\n" + lines.replace("\\n", "\n") + "\n}")
    entered = plugin.filter_request(make_question(question))
    assert str(entered is not None) == taken
    assert entered is None or entered.view == "inside"


def test_expressions_see_metadata() -> None:
    plugin = set_up(View, "view inside {\n expr metadata('a/b') == 'x'\n}")
    assert plugin.filter_request(make_request("a.")) is None
    assert (
        plugin.filter_request(make_request("a.").replace(metadata={"a/b": lambda: "x"})) is not None
    )


def test_a_failing_expression_is_logged_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hsdns.plugin.view")
    plugin = set_up(View, "view inside {\n expr incidr('x', '192.0.2.0/24')\n}")
    assert plugin.filter_request(make_request("a.")) is None
    assert [record.getMessage() for record in caplog.records] == [
        "plugin/view: inside: incidr('x', '192.0.2.0/24'): incidr: \"x\" is not an address"
    ]


def test_provides_its_name_and_passes_queries_on() -> None:
    plugin = set_up(View, "view inside")
    values = plugin.metadata(make_request("a."))
    assert {label: value() for label, value in values.items()} == {"view/name": "inside"}
    reply = Reply(aa=True)
    assert finish(plugin.handle(make_request("a."), next_with(reply))) is reply


VIEW = "    view v {\n        expr true\n    }\n"


def listeners(*blocks: tuple[str, bool]) -> list[tuple[str, dict[str, list[str]]]]:
    """Assemble blocks of a key each, with a view or without; say each listener's zones and views."""
    text = "".join(
        f"{key} {{\n{VIEW.replace('view v', f'view v{at}') if view else ''}    whoami\n}}\n"
        for at, (key, view) in enumerate(blocks)
    )
    corefile = parse("Corefile", text=text, environ={}, known_directives=frozenset(ORDER))
    found = assemble(corefile, warn=lambda sentence: None)
    return [
        (
            listener.listen.server,
            {
                zone.to_text(): [block.view for block in blocks]
                for zone, blocks in listener.served.items()
            },
        )
        for listener in found.listeners
    ]


def test_blocks_of_one_zone() -> None:
    assert listeners(("a.", True), ("a.", False), ("a.", True), ("b.", False)) == [
        ("dns://:53", {"a.": ["v0", "", "v2"], "b.": [""]})
    ]


@pytest.mark.parametrize(
    "blocks", [[("a.", False), ("a.", False)], [("a.", False), ("a.", True), ("a.", False)]]
)
def test_two_blocks_without_a_view_exclude_each_other(blocks: list[tuple[str, bool]]) -> None:
    with pytest.raises(CorefileError, match=r"dns://a\.:53 is already served by the block at"):
        listeners(*blocks)


def test_a_block_with_a_view_has_no_answer_table() -> None:
    policy = BlockPolicy([set_up(View, "view a")])
    assert policy.reason == "it has no kubernetes plugin"
    assert not isinstance(set_up(View, "view a"), Cacheable)
