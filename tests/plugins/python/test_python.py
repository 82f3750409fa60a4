from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.answer_table.policy import BlockPolicy
from hsdns.assemble import assemble
from hsdns.chain import Request
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER, python
from hsdns.plugins.python import Python, module, record
from hsdns.server.instance import StartError
from hsdns.server.lifecycle import Server
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import UdpClient
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import run, until
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up, setup_error
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import cluster_objects

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/plugins/python.md").read_text()
HEAD = "import asyncio\nfrom hsdns.plugins.python import *\n\n\nclass Mine(UserHandler):\n"
BELOW = reply(["www.example.org. 60 IN A 192.0.2.1"], aa=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the Corefile; sys.path and sys.modules are restored."""
    before = dict(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(module, "_own_folders", set())
    yield tmp_path
    for name in set(sys.modules) - set(before):
        if name.startswith("mine"):
            del sys.modules[name]


def fence(title: str) -> str:
    """Return an example of docs/plugins/python.md."""
    found = re.search(rf'^```python title="{title}"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def write(text: str, name: str = "mine.py") -> None:
    Path(name).write_text(text)


def handler(body: str, line: str = "python mine:Mine", name: str = "mine.py") -> Python:
    """Set up the plugin with a class that has the given body."""
    write(HEAD + "".join(f"    {each}\n" for each in body.splitlines()), name)
    return set_up(Python, line, ["example.org."])


def ask(
    plugin: Python,
    *below: Reply,
    request: Request | None = None,
    runtime: FakeRuntime | None = None,
    below_raises: Exception | None = None,
) -> Reply:
    """Start a plugin and send it a query through a chain, as the server does."""
    answers = next_with(*(below or (BELOW,)))

    async def below_it(request: Request) -> Reply:
        if below_raises is not None:
            raise below_raises
        return await answers(request)

    async def test() -> Reply:
        await plugin.start(runtime or FakeRuntime())
        asked = request or make_request("www.example.org.")
        try:
            return await asyncio.create_task(plugin.handle(asked, below_it))
        finally:
            await plugin.stop()

    return run(test())


# --- the examples of the page ---


@pytest.mark.parametrize(
    ("qname", "qtype", "answer"),
    [
        ("blue.preview.test.", "A", ["blue.preview.test. 30 IN A 192.0.2.10"]),
        ("GREEN.preview.test.", "A", ["GREEN.preview.test. 30 IN A 192.0.2.11"]),
        ("green.preview.test.", "AAAA", []),
    ],
)
def test_preview_answers_from_a_dict(qname: str, qtype: str, answer: list[str]) -> None:
    write(fence("preview.py"), "mine_preview.py")
    plugin = set_up(Python, "python mine_preview:Preview")
    found = ask(plugin, request=make_request(qname, qtype))
    assert found == reply(answer, aa=True)


def test_the_test_of_the_page_passes(folder: Path) -> None:
    for title in ("preview.py", "test_preview.py"):
        write(fence(title), title)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_preview.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_preview_passes_on_other_queries() -> None:
    write(fence("preview.py"), "mine_preview.py")
    assert ask(set_up(Python, "python mine_preview:Preview")) == BELOW


def test_the_page_lists_all_exported_names() -> None:
    rows = "".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(python.__all__) - set(re.findall(r"`(\w+)`", rows)) == set()


def test_preview_is_ten_lines() -> None:
    assert len([line for line in fence("preview.py").splitlines() if line]) <= 10


def test_names_come_from_the_corefile(folder: Path) -> None:
    write(fence("names.py"), "mine_names.py")
    text = "python mine_names:Names {\n shop.preview.test. 192.0.2.20\n}"
    plugin = set_up(Python, text)
    found = ask(plugin, request=make_request("shop.preview.test."))
    assert found == reply(["shop.preview.test. 5 IN A 192.0.2.20"], aa=True)
    assert setup_error(Python, "python mine_names:Names {\n shop\n}") == (
        'Corefile:2:8: "mine_names:Names" rejects its options: a line is NAME ADDRESS, found shop '
        f"({folder}/mine_names.py:17)"
    )


def test_shorten_changes_replies() -> None:
    write(fence("shorten.py"), "mine_shorten.py")
    plugin = set_up(Python, "python mine_shorten:Shorten 2")
    assert ask(plugin) == reply(["www.example.org. 2 IN A 192.0.2.1"], aa=True)


def test_flaky_drops_some_questions_for_one_name() -> None:
    write(fence("flaky.py"), "mine_flaky.py")
    plugin = set_up(Python, "python mine_flaky:Flaky EXAMPLE.org. 3")
    dropped = [ask(plugin).dropped for _ in range(7)]
    assert dropped == [False, False, True, False, False, True, False]
    assert ask(plugin, request=make_request("www.example.com.")) == BELOW
    assert ask(plugin) == BELOW
    assert ask(plugin).dropped


def test_examples_pass_mypy(tmp_path: Path) -> None:
    """The base class is typed, so mypy checks a user's class with the strictest settings."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    for title in ("preview.py", "names.py", "shorten.py", "flaky.py"):
        write(fence(title), f"mine_{title}")
    write(fence("preview.py").replace("return Reply(", "return str("), "mine_wrong.py")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--cache-dir=/dev/null",
    ]
    found = subprocess.run(
        [*command, "--follow-imports=silent", *sorted(map(str, tmp_path.glob("mine_*.py")))],
        capture_output=True,
        text=True,
        timeout=120,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
    )
    wrong = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert wrong, found
    assert all("mine_wrong.py" in line for line in wrong), found.stdout


# --- the directive ---


def test_options() -> None:
    plugin = handler(
        "async def handle(self, request, next):\n"
        "    texts = [repr(self.options.args), repr(self.options.lines), self.options.zones[0].to_text()]\n"
        "    word = self.options.directive.lines[1].args[0]\n"
        "    return Reply(answer=tuple(record(request, 1, 'TXT', '\"' + t + '\"') for t in (*texts, str(word.position))))",
        'python mine:Mine one "two words" {\n a "b c"\n alone d # e\n}',
    )
    assert [text.partition(" TXT ")[2] for text in section(ask(plugin).answer)] == [
        "\"('one', 'two words')\"",
        "\"(('a', 'b c'), ('alone', 'd'))\"",
        '"example.org."',
        '"Corefile:4:8"',
    ]


words = st.text("abc{}\\.:[]()1é", min_size=1, max_size=6).filter(
    lambda word: word not in "{}" and word[-1] != "\\"
)


@given(st.lists(words, max_size=4), st.lists(st.lists(words, min_size=1, max_size=3), max_size=4))
def test_options_contain_all_words_unchanged(args: list[str], lines: list[list[str]]) -> None:
    write(HEAD + "    async def handle(self, request, next):\n        return Reply()\n")
    text = " ".join(["python mine:Mine", *(f'"{word}"' for word in args)])
    text += " {\n" + "".join(" ".join(f'"{word}"' for word in line) + "\n" for line in lines) + "}"
    found = directives(text)
    (guard,) = Python.setup(found, make_block())._handlers
    assert guard.user.options.args == tuple(word.text for word in found[0].args[1:])
    assert guard.user.options.lines == tuple(
        (line.name.text, *(word.text for word in line.args)) for line in found[0].lines
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param("python", 'Corefile:2:1: "python" takes MODULE:CLASS [ARGS...], found nothing after it', id="empty"),
        pytest.param(
            "python mine", 'Corefile:2:8: "mine" is not MODULE:CLASS; write one such as preview:Preview', id="no-class"
        ),
        pytest.param(
            "python mine:", 'Corefile:2:8: "mine:" is not MODULE:CLASS; write one such as preview:Preview', id="empty-class"
        ),
        pytest.param(
            "python ./mine.py:Mine",
            'Corefile:2:8: "./mine.py:Mine" is not MODULE:CLASS; write one such as preview:Preview',
            id="a-path",
        ),
        pytest.param(
            "python mine:a:b", 'Corefile:2:8: "mine:a:b" is not MODULE:CLASS; write one such as preview:Preview', id="colons"
        ),
        pytest.param(
            "python mine_nowhere:Mine",
            'Corefile:2:8: cannot load the module of "mine_nowhere:Mine": '
            "there is no mine_nowhere.py in FOLDER, and no module mine_nowhere is installed",
            id="no-module",
        ),
        pytest.param("python mine:Min", 'Corefile:2:8: module mine has no class Min; did you mean "Mine"?', id="near"),
        pytest.param("python mine:Other", "Corefile:2:8: module mine has no class Other", id="no-such-class"),
        pytest.param(
            "python mine:asyncio",
            'Corefile:2:8: "mine:asyncio" is not a class derived from hsdns.plugins.python.UserHandler',
            id="not-a-class",
        ),
        pytest.param(
            "python mine:Reply",
            'Corefile:2:8: "mine:Reply" is not a class derived from hsdns.plugins.python.UserHandler',
            id="another-class",
        ),
        pytest.param(
            "python mine:UserHandler",
            'Corefile:2:8: "mine:UserHandler" is not a class derived from hsdns.plugins.python.UserHandler',
            id="the-class-itself",
        ),
        pytest.param(
            "python mine:Empty", 'Corefile:2:8: "mine:Empty" has no method handle(request, next); write one', id="no-handle"
        ),
        pytest.param(
            "python mine:Picky",
            'Corefile:2:8: "mine:Picky" rejects its options: say a number (FOLDER/mine.py:16)',
            id="value-error",
        ),
        pytest.param("python mine:Placed x y", "Corefile:2:20: not this word", id="corefile-error"),
        pytest.param(
            "python mine:Broken",
            'Corefile:2:8: "mine:Broken" rejects its options: KeyError: \'size\' (FOLDER/mine.py:32)',
            id="another-error",
        ),
        pytest.param(
            "python mine:Exits",
            'Corefile:2:8: "mine:Exits" rejects its options: SystemExit: 2 (FOLDER/mine.py:36)',
            id="exits",
        ),
        pytest.param("python mine:Never", 'Corefile:2:8: "mine:Never" has timeout 0; give a number of seconds above 0', id="timeout"),
        pytest.param(
            "python mine:Spelt", "Corefile:2:8: \"mine:Spelt\" has timeout '5s'; give a number of seconds above 0", id="timeout-text"
        ),
    ],
)  # fmt: skip
def test_setup_errors(folder: Path, line: str, sentence: str) -> None:
    write(
        """\
import asyncio
from hsdns.plugins.python import *


class Mine(UserHandler):
    async def handle(self, request, next):
        return await next(request)


class Empty(UserHandler):
    pass


class Picky(Mine):
    def __init__(self, options):
        raise ValueError("say a number")


class Placed(Mine):
    def __init__(self, options):
        raise CorefileError(options.directive.args[1].position, "not this word")


class Never(Mine):
    timeout = 0


class Broken(Mine):
    def __init__(self, options):
        found = {}

        found["size"]

class Exits(Mine):
    def __init__(self, options):
        raise SystemExit(2)


class Spelt(Mine):
    timeout = "5s"
"""
    )
    assert setup_error(Python, line) == sentence.replace("FOLDER", str(folder))


def test_every_directive_of_a_block_is_read() -> None:
    write(HEAD + "    async def handle(self, request, next):\n        return Reply()\n")
    assert setup_error(Python, "python mine:Mine\npython mine:Nine") == (
        'Corefile:3:8: module mine has no class Nine; did you mean "Mine"?'
    )


def test_a_module_in_the_directory_of_an_imported_file(folder: Path) -> None:
    """The module is loaded from the directory of the file that contains the directive."""
    Path("custom").mkdir()
    body = "    async def handle(self, request, next):\n        return Reply(aa=True)\n"
    write(HEAD + body, "custom/mine_custom.py")
    write("python mine_custom:Mine\n", "custom/one.override")
    write("example.org {\n import custom/*.override\n}\n", "Corefile")
    corefile = parse(str(folder / "Corefile"), environ={}, known_directives=ORDER)
    configuration = assemble(corefile, warn=lambda sentence: None)
    assert [plugin.name for plugin in configuration.plugins] == ["python"]


def test_order_is_between_cache_and_all_sources() -> None:
    place = {name: number for number, name in enumerate(ORDER)}
    assert place["cache"] < place["python"] < min(place["hosts"], place["kubernetes"])
    for name in ("template", "transfer"):
        assert place.get(name, 999) > place["python"]
    for name in ("header", "minimal"):
        assert place.get(name, 0) < place["python"]


# --- several handlers ---


def test_several_are_called_in_file_order() -> None:
    body = (
        "async def handle(self, request, next):\n"
        "    reply = await next(request)\n"
        "    return reply.replace(answer=(*reply.answer, record(request, 1, 'TXT', self.options.args[0])))"
    )
    plugin = handler(body, "python mine:Mine first\npython mine:Mine second")
    assert [text.split()[-1] for text in section(ask(plugin).answer)] == [
        "192.0.2.1",
        '"second"',
        '"first"',
    ]


def test_the_first_may_answer_without_the_others() -> None:
    body = (
        "async def handle(self, request, next):\n"
        "    if self.options.args[0] == 'second': raise ValueError('never asked')\n"
        "    return Reply(rcode=Rcode.NXDOMAIN, aa=True)"
    )
    plugin = handler(body, "python mine:Mine first\npython mine:Mine second")
    assert ask(plugin) == Reply(rcode=Rcode.NXDOMAIN, aa=True)


# --- errors ---

PLACE = "FOLDER/mine.py:7"  # the line that raises


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param("raise ValueError('boom')", f"raised ValueError: boom ({PLACE})", id="raises"),
        pytest.param("raise SystemExit(1)", f"raised SystemExit: 1 ({PLACE})", id="exits"),
        pytest.param("raise KeyboardInterrupt", f"raised KeyboardInterrupt ({PLACE})", id="interrupts"),
        pytest.param("raise asyncio.CancelledError", f"raised asyncio.exceptions.CancelledError ({PLACE})", id="cancels"),
        pytest.param("raise TimeoutError('slow')", f"raised TimeoutError: slow ({PLACE})", id="a-timeout-of-its-own"),
        pytest.param("raise BaseExceptionGroup('all', [ValueError('one')])", f"raised ExceptionGroup: all (1 sub-exception) ({PLACE})", id="group"),
        pytest.param("return None", f"returned NoneType, not a Reply ({PLACE})", id="none"),
        pytest.param("return (0, 'error')", f"returned tuple, not a Reply ({PLACE})", id="a-tuple"),
        pytest.param(
            "\n        await asyncio.sleep(0)\n        if request:\n            return 5\n        return 6",
            "returned int, not a Reply (FOLDER/mine.py:10)",
            id="the-line-that-returned",
        ),
        pytest.param("yield 1", f"raised TypeError: object async_generator can't be used in 'await' expression ({PLACE})", id="a-generator"),
        pytest.param("await asyncio.Event().wait()", f"did not reply within 0.01s ({PLACE})", id="hangs"),
        pytest.param("\n        await next(request)\n        await asyncio.Event().wait()", "did not reply within 0.01s (FOLDER/mine.py:9)", id="hangs-later"),
        pytest.param(
            "\n        return Reply(answer=(self.make(request),))\ndef make(self, request):\n    return record(request, 30, 'A', '192.0.2.300')",
            "raised ipaddress.AddressValueError: Octet 300 (> 255) not permitted in '192.0.2.300' (FOLDER/mine.py:10)",
            id="address",
        ),
        pytest.param(
            "return Reply(answer=(record(request, -5, 'A', '192.0.2.1'),))",
            f"raised ValueError: the record has TTL -5; a TTL is a whole number of seconds from 0 to 4294967295 ({PLACE})",
            id="negative-ttl",
        ),
        pytest.param(
            "return Reply(answer=(record(request, '30', 'A', '192.0.2.1'),))",
            f"raised ValueError: the record has TTL '30'; a TTL is a whole number of seconds from 0 to 4294967295 ({PLACE})",
            id="ttl-as-text",
        ),
        pytest.param("return Reply(answer=(record(request, 5, 'A', None),))", f"raised TypeError: the record's data is None; write it as text ({PLACE})", id="address-of-no-text"),
        pytest.param("return Reply(answer=(record(request, 5, 1, '192.0.2.1'),))", f"raised TypeError: the record's type is 1; write it as text, such as \"A\" ({PLACE})", id="type-as-number"),
        pytest.param(
            "\n        below = await next(request)\n        return below.replace(answer=tuple(rr._replace(ttl=rr.ttl - 90) for rr in below.answer))",
            "returned a Reply whose answer[0] has TTL -30; a TTL is a whole number of seconds from 0 to 4294967295 (FOLDER/mine.py:9)",
            id="ttl-of-a-changed-reply",
        ),
        pytest.param("return Reply(rcode='NXDOMAIN')", f"returned a Reply with rcode 'NXDOMAIN'; write one such as Rcode.NXDOMAIN ({PLACE})", id="rcode-as-text"),
        pytest.param("return Reply(answer=('x',))", f"returned a Reply whose answer[0] is str, not a record; make one with record() ({PLACE})", id="record-as-text"),
        pytest.param(
            "\n        try: await asyncio.Event().wait()\n        finally: raise ValueError('late')",
            "raised ValueError: late (FOLDER/mine.py:9)",
            id="raises-after-timeout",
        ),
        pytest.param("await next(request); raise ValueError('after')", f"raised ValueError: after ({PLACE})", id="after-the-answer"),
    ],
)  # fmt: skip
def test_errors_are_answered_with_servfail_and_logged(
    folder: Path, caplog: pytest.LogCaptureFixture, body: str, said: str
) -> None:
    plugin = handler(f"timeout = 0.01\nasync def handle(self, request, next): {body}")
    runtime = FakeRuntime()
    with caplog.at_level(logging.INFO, logger="hsdns.plugin.python"):
        assert ask(plugin, runtime=runtime) == unwritten(Rcode.SERVFAIL)
    (line,) = caplog.records
    assert line.levelname == "ERROR"
    wanted = f"plugin/python: mine:Mine {said}".replace("FOLDER", str(folder))
    assert line.getMessage().startswith(wanted)
    assert line.getMessage().endswith(", query: www.example.org. A")
    counter = runtime.metrics.counter("hsdns_python_errors_total", "")
    assert counter.values == {("mine:Mine",): 1}


def test_a_handler_with_other_arguments(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(handler("\nasync def handle(self, request): return Reply()")).rcode == Rcode.SERVFAIL
    (line,) = caplog.messages
    assert "raised TypeError: Mine.handle() takes 2 positional arguments but 3 were given" in line
    assert f"({folder}/mine.py:7)" in line


def test_a_handler_that_blocks_is_named_once_a_minute(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only its own time counts, in one turn; the clock is the runtime's."""
    plugin = handler(
        "work = None\n"
        "async def start(self, runtime): self.runtime = runtime\n"
        "async def handle(self, request, next):\n"
        "    for seconds in self.work:\n"
        "        self.runtime.time += seconds\n"
        "        await asyncio.sleep(0)\n"
        "    return await next(request)"
    )
    user: Any = plugin._handlers[0].user
    runtime = FakeRuntime()

    async def slow(request: Request) -> Reply:
        runtime.time += 3
        return BELOW

    async def test() -> list[int]:
        await plugin.start(runtime)
        said = []
        for work in ([0.09] * 10, [0.0, 0.11, 0.01], [0.5], [60.0], [0.0]):
            user.work = work
            assert await plugin.handle(make_request("www.example.org."), slow) == BELOW
            said.append(len(caplog.records))
        return said

    assert run(test()) == [0, 1, 1, 2, 2]
    assert caplog.records[0].levelname == "WARNING"
    assert caplog.messages[0] == (
        f"plugin/python: mine:Mine blocked the event loop for 0.11 s (before {folder}/mine.py:11), "
        "query: www.example.org. A; the server stands still meanwhile: use await, or asyncio.to_thread() "
        "for what cannot be awaited"
    )


def test_the_traceback_is_logged_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    plugin = handler("async def handle(self, request, next): raise ValueError('boom')")
    with caplog.at_level(logging.DEBUG, logger="hsdns.plugin.python"):
        ask(plugin)
    assert [record.levelname for record in caplog.records if record.name.endswith("python")] == [
        "ERROR",
        "DEBUG",
    ]
    assert "Traceback" in caplog.text


def test_exceptions_of_later_plugins_pass_unchanged() -> None:
    runtime = FakeRuntime()
    plugin = handler("async def handle(self, request, next): return await next(request)")
    with pytest.raises(ZeroDivisionError):
        ask(plugin, runtime=runtime, below_raises=ZeroDivisionError("below"))
    assert runtime.metrics.counter("hsdns_python_errors_total", "").values == {}


def test_an_error_in_the_second_handler_is_servfail_for_the_first() -> None:
    body = (
        "async def handle(self, request, next):\n"
        "    if self.options.args[0] == 'second': raise ValueError('boom')\n"
        "    reply = await next(request)\n"
        "    return reply.replace(rcode=Rcode.NXDOMAIN) if reply.rcode == Rcode.SERVFAIL else reply"
    )
    plugin = handler(body, "python mine:Mine first\npython mine:Mine second")
    assert ask(plugin).rcode == Rcode.NXDOMAIN


def test_handle_can_be_cancelled() -> None:
    plugin = handler("async def handle(self, request, next): await asyncio.Event().wait()")

    async def test() -> None:
        task = asyncio.create_task(ask_once(plugin))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def ask_once(plugin: Python) -> Reply:
        return await plugin.handle(make_request("www.example.org."), next_with(BELOW))

    run(test())


# --- start and stop ---

START_AND_STOP = """\
def __init__(self, options):
    self.said = []
async def start(self, runtime):
    self.said.append('start')
    if options_of(self) == 'fails': raise ConnectionError('nobody there')
async def stop(self):
    self.said.append('stop')
    raise ValueError('cannot')
async def handle(self, request, next): return Reply()
"""


def test_stop_is_called_for_each_started_handler(caplog: pytest.LogCaptureFixture) -> None:
    body = (
        START_AND_STOP.replace("self.said = []", "self.said = []; self.options = options")
        .replace("options_of(self)", "self.options.args[0]")
    )  # fmt: skip
    lines = "python mine:Mine one\npython mine:Mine fails\npython mine:Mine three"
    plugin = handler(body, lines)

    async def test() -> str:
        try:
            await plugin.start(FakeRuntime())
        except Exception as error:
            await plugin.stop()
            await plugin.stop()
            return str(error)
        raise AssertionError("it started")

    said = run(test())
    assert re.fullmatch(
        r'Corefile:3:8: "mine:Mine" failed to start: ConnectionError: nobody there \(\S+/mine.py:10\)',
        said,
    )
    assert [getattr(guard.user, "said", None) for guard in plugin._handlers] == [
        ["start", "stop"],
        ["start", "stop"],
        [],
    ]
    assert caplog.text.count("mine:Mine failed to stop: ValueError: cannot") == 2


def test_a_stop_that_awaits_a_cancelled_task_does_not_end_the_others() -> None:
    body = """\
stopped = False
async def start(self, runtime):
    self.task = asyncio.create_task(asyncio.Event().wait())
async def stop(self):
    self.stopped = True
    self.task.cancel()
    await self.task
async def handle(self, request, next): return Reply()
"""
    plugin = handler(body, "python mine:Mine one\npython mine:Mine two")

    async def test() -> None:
        await plugin.start(FakeRuntime())
        await plugin.stop()
        assert len(asyncio.all_tasks()) == 1

    run(test())
    assert [getattr(guard.user, "stopped", None) for guard in plugin._handlers] == [True, True]


def test_a_stop_can_be_cancelled() -> None:
    plugin = handler(
        "async def stop(self): await asyncio.Event().wait()\n"
        "async def handle(self, request, next): return Reply()"
    )

    async def test() -> None:
        await plugin.start(FakeRuntime())
        stopping = asyncio.create_task(plugin.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping

    run(test())


@pytest.mark.parametrize(
    ("body", "ready"),
    [("", True), ("def ready(self): return False", False), ("def ready(self): raise ValueError('?')", False)],
)  # fmt: skip
def test_ready(body: str, ready: bool) -> None:
    plugin = handler(f"async def handle(self, request, next): return Reply()\n{body}")
    assert plugin.ready() is ready


@pytest.mark.parametrize(
    ("bodies", "cacheable", "names"),
    [
        pytest.param([""], False, None, id="default"),
        pytest.param(["cacheable = True"], True, None, id="any-name"),
        pytest.param(["cacheable = True", ""], False, None, id="one-of-two"),
        pytest.param(
            [
                "cacheable = True\ndef names_answered_first(self, zone): return (Name.from_text('a.example.org.'),)",
                "cacheable = True\ndef names_answered_first(self, zone): return []",
            ],
            True,
            (Name.from_text("a.example.org."),),
            id="some-names",
        ),
        pytest.param(
            ["cacheable = True\ndef names_answered_first(self, zone): raise ValueError('?')"], True, None, id="raises"
        ),
    ],
)  # fmt: skip
def test_cacheable_only_if_all_classes_are(
    bodies: list[str], cacheable: bool, names: tuple[Name, ...] | None
) -> None:
    for number, body in enumerate(bodies):
        handle = "async def handle(self, request, next): return Reply()"
        handler(f"{body}\n{handle}", f"python mine{number}:Mine", f"mine{number}.py")
    lines = "\n".join(f"python mine{number}:Mine" for number in range(len(bodies)))
    plugin = set_up(Python, lines)
    assert plugin.cacheable is cacheable
    assert plugin.names_answered_first(Name.from_text("example.org.")) == names
    # The reason is that there is no kubernetes plugin.
    assert "python" not in BlockPolicy([plugin]).reason


def test_record_raises_value_error() -> None:
    request = make_request("www.example.org.")
    assert section([record(request, 5, "MX", "10 mail.example.org.")]) == [
        "www.example.org. 5 IN MX 10 mail.example.org."
    ]
    with pytest.raises(ValueError, match="192"):
        record(request, 5, "A", "192.0.2.300")


# --- in a server ---


def serving(folder: Path, block: str, test: Callable[[Server, UdpClient], object]) -> None:
    """Start a server and call a coroutine with it."""
    path = folder / "Corefile"
    path.write_text(block)

    def build(corefile: object) -> object:
        return assemble(corefile, default_port=0, warn=lambda sentence: None)  # type: ignore[arg-type]  # a Corefile

    async def go() -> None:
        server = Server(
            lambda: parse(str(path), environ={}, known_directives=ORDER),
            build,  # type: ignore[arg-type]  # as assemble
        )
        await server.start()
        try:
            with UdpClient() as client:
                await test(server, client)  # type: ignore[misc]  # a coroutine
        finally:
            await server.close()

    run(go())


async def asked(server: Server, client: UdpClient, qname: str = "www.example.org") -> str:
    (endpoint,) = server.addresses.values()
    wire, _ = await client.ask(query(qname).to_wire(), (endpoint.address, endpoint.port))
    return summary(wire)


BLOCK = ".:0 {\n bind 127.0.0.1\n python mine:Mine\n whoami\n}\n"


@pytest.mark.sockets
def test_the_server_continues_after_an_error(folder: Path) -> None:
    body = (
        "    async def handle(self, request, next):\n"
        "        word = request.query.qname.labels[0].decode()\n"
        "        if word == 'exit': raise SystemExit(0)\n"
        "        if word == 'bad': return Reply(answer=('no record',))\n"
        "        await asyncio.sleep(0)\n"
        "        return Reply(answer=(record(request, 7, 'A', '192.0.2.9'),), aa=True)\n"
    )
    write(HEAD + body)

    async def test(server: Server, client: UdpClient) -> None:
        for name in ("exit.example.org", "bad.example.org"):
            assert await asked(server, client, name) == "1 SERVFAIL qr rd |  |  | "
        assert await asked(server, client) == (
            "1 NOERROR qr aa rd | www.example.org. 7 IN A 192.0.2.9 |  | "
        )

    serving(folder, BLOCK, test)


@pytest.mark.sockets
def test_a_reload_uses_the_new_module_unless_it_fails(folder: Path) -> None:
    body = "    async def handle(self, request, next):\n        return Reply(rcode={}, aa=True)\n"
    write(HEAD + body.format(3))

    async def test(server: Server, client: UdpClient) -> None:
        assert (await asked(server, client)).startswith("1 NXDOMAIN ")
        write(HEAD + body.format(5))
        assert await server.reload()
        assert (await asked(server, client)).startswith("1 REFUSED ")
        write(HEAD + body.format("3,,"))
        assert not await server.reload()
        assert (await asked(server, client)).startswith("1 REFUSED ")

    serving(folder, BLOCK, test)


@pytest.mark.sockets
def test_reload_loads_a_module_that_has_changed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As the plugin `reload` asks for it; the Corefile stays as it is.  A broken file is tried once."""
    body = "    async def handle(self, request, next):\n        return Reply(rcode={}, aa=True)\n"
    write(HEAD + body.format(3))

    async def test(server: Server, client: UdpClient) -> None:
        first = server.configuration
        assert await server.reload(only_if_changed=True)
        assert server.configuration is first
        write(HEAD + body.format(5))
        assert await server.reload(only_if_changed=True)
        assert (await asked(server, client)).startswith("1 REFUSED ")
        write(HEAD + body.format("3,,"))
        assert not await server.reload(only_if_changed=True)
        assert await server.reload(only_if_changed=True)
        assert caplog.text.count("Restart failed") == 1
        assert (await asked(server, client)).startswith("1 REFUSED ")
        write(HEAD + body.format(3))
        assert await server.reload(only_if_changed=True)
        assert (await asked(server, client)).startswith("1 NXDOMAIN ")

    serving(folder, BLOCK, test)


@pytest.mark.sockets
def test_a_failed_start_is_a_corefile_error(folder: Path) -> None:
    write(
        HEAD + "    async def start(self, runtime):\n        raise OSError(111, 'refused')\n"
        "    async def handle(self, request, next):\n        return Reply()\n"
    )
    before = set(threading.enumerate())
    with pytest.raises(Exception, match=r"Corefile:3:9: .*mine:Mine.* failed to start: .*refused") as caught:  # fmt: skip
        serving(folder, BLOCK, lambda server, client: None)
    assert not isinstance(caught.value, StartError), "it has a place in the Corefile"
    assert set(threading.enumerate()) <= before  # other tests leave some that end meanwhile


@pytest.mark.sockets
def test_a_handler_may_wait_and_resolve_through_the_server(folder: Path) -> None:
    body = (
        "    async def start(self, runtime):\n"
        "        self.runtime = runtime\n"
        "        self.beats = 0\n"
        "        runtime.spawn(self.beat(), 'beat')\n"
        "    async def beat(self):\n"
        "        while True:\n"
        "            self.beats += 1\n"
        "            await asyncio.sleep(0.001)\n"
        "    async def handle(self, request, next):\n"
        "        if request.depth: return await next(request)\n"
        "        await asyncio.sleep(0.001)\n"
        "        found = await self.runtime.resolve(request.replace(depth=request.depth + 1))\n"
        "        return found.replace(rcode=Rcode.NXDOMAIN)\n"
    )
    write(HEAD + body)

    async def test(server: Server, client: UdpClient) -> None:
        (plugin,) = (each for each in server.configuration.plugins if isinstance(each, Python))
        user = plugin._handlers[0].user
        await until(lambda: getattr(user, "beats", 0) > 2, "beats")
        assert "NXDOMAIN" in await asked(server, client)

    serving(folder, BLOCK, test)


CLUSTER = """\
.:PORT {
    bind 127.0.0.1
    python mine:Mine
    kubernetes cluster.local
}
"""


@pytest.mark.sockets
@pytest.mark.parametrize("cacheable", [True, False])
def test_the_answer_table_is_enabled_only_if_cacheable(folder: Path, cacheable: bool) -> None:
    """A reply that it has changed is stored if it is cacheable; its own replies are never stored."""
    body = (
        f"    cacheable = {cacheable}\n"
        "    asked = 0\n"
        "    async def handle(self, request, next):\n"
        "        type(self).asked += 1\n"
        "        await asyncio.sleep(0)\n"
        "        if request.query.qname.labels[0] == b'own':\n"
        "            return Reply(answer=(record(request, 7, 'A', '192.0.2.9'),), aa=True)\n"
        "        reply = await next(request)\n"
        "        return reply.replace(answer=tuple(rr._replace(ttl=2) for rr in reply.answer))\n"
    )
    write(HEAD + body)
    objects = cluster_objects(service("default/web", "10.96.0.80"))

    async def go() -> None:
        async with ClusterServer(folder, CLUSTER, objects) as cluster_server:
            with UdpClient() as client:
                for name, answer in (
                    ("web.default.svc.cluster.local.", "2 IN A 10.96.0.80"),
                    ("own.default.svc.cluster.local.", "7 IN A 192.0.2.9"),
                ):
                    for _ in range(5):
                        wire, _ = await client.ask(query(name).to_wire(), cluster_server.address)
                        assert summary(wire) == f"1 NOERROR qr aa rd | {name} {answer} |  | "
            plugins = cluster_server.server.configuration.plugins
            (plugin,) = (each for each in plugins if isinstance(each, Python))
            asked = getattr(plugin._handlers[0].user, "asked", 0)
            assert asked == (6 if cacheable else 10)
            assert cluster_server.hits() == (4 if cacheable else 0)

    run(go())
