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
from hsdns.corefile.tree import CorefileError
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
from tests.support.coroutines.event_loops import run
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up, setup_error
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import cluster_objects
from tests.support.tables import columns, sections
from tests.support.tables import section as file_section

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/plugins/python.md").read_text()
ERRORS, SETUP = (Path(__file__).with_name(name) for name in ("errors.txt", "setup.txt"))
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
    ("title", "line", "question", "expected"),
    [
        ("preview", "Preview", "blue.preview.test. A", reply(["blue.preview.test. 30 IN A 192.0.2.10"], aa=True)),
        ("preview", "Preview", "GREEN.preview.test. A", reply(["GREEN.preview.test. 30 IN A 192.0.2.11"], aa=True)),
        ("preview", "Preview", "green.preview.test. AAAA", reply(aa=True)),
        ("preview", "Preview", "www.example.org. A", BELOW),
        (
            "names", "Names {\n shop.preview.test. 192.0.2.20\n}", "shop.preview.test. A",
            reply(["shop.preview.test. 5 IN A 192.0.2.20"], aa=True),
        ),
        ("shorten", "Shorten 2", "www.example.org. A", reply(["www.example.org. 2 IN A 192.0.2.1"], aa=True)),
    ],
)  # fmt: skip
def test_examples(title: str, line: str, question: str, expected: Reply) -> None:
    write(fence(f"{title}.py"), f"mine_{title}.py")
    plugin = set_up(Python, f"python mine_{title}:{line}")
    assert ask(plugin, request=make_request(*question.split())) == expected


def test_an_example_that_rejects_its_options(folder: Path) -> None:
    write(fence("names.py"), "mine_names.py")
    assert setup_error(Python, "python mine_names:Names {\n shop\n}") == (
        'Corefile:2:8: "mine_names:Names" rejects its options: a line is NAME ADDRESS, found shop '
        f"({folder}/mine_names.py:17)"
    )


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


def test_the_page_lists_all_exported_names() -> None:
    rows = "".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(python.__all__) - set(re.findall(r"`(\w+)`", rows)) == set()


def test_examples_pass_mypy(tmp_path: Path) -> None:
    """The base class is typed, so mypy checks a user's class with the strictest settings."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    for title in ("preview.py", "names.py", "shorten.py"):
        write(fence(title), f"mine_{title}")
    write(fence("preview.py").replace("return Reply(", "return str("), "mine_wrong.py")
    flags = (
        "-m mypy --strict --no-incremental --cache-dir=/dev/null --follow-imports=silent".split()
    )
    files = sorted(map(str, tmp_path.glob("mine_*.py")))
    environment = {"MYPYPATH": str(ROOT), "PATH": ""}
    found = subprocess.run(
        [sys.executable, *flags, *files],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    wrong = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert wrong, found
    assert all("mine_wrong.py" in line for line in wrong), found.stdout


# --- the directive ---


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


@pytest.mark.parametrize(("line", "sentence"), columns(SETUP, "refused"))
def test_setup_errors(folder: Path, line: str, sentence: str) -> None:
    write(file_section(SETUP, "mine.py"))
    assert setup_error(Python, line) == f"Corefile:{sentence}".replace("FOLDER", str(folder))


# --- several handlers ---


def test_they_are_called_in_the_order_of_the_file() -> None:
    body = "async def handle(self, request, next): return (await next(request)).replace(error=self.options.args[0])"
    assert ask(handler(body, "python mine:Mine first\npython mine:Mine second")).error == "first"


# --- errors ---


def errors() -> Iterator[tuple[str, str]]:
    """The lines of a handler, and what the log says."""
    for line in file_section(ERRORS, "one line").splitlines():
        body, _, sentence = line.partition(" => ")
        yield f"async def handle(self, request, next): {body}", f"{sentence} (FOLDER/mine.py:7)"
    for title in sections(ERRORS)[1:]:
        lines, sentence = file_section(ERRORS, title).split("\n=> ")
        yield lines, sentence


@pytest.mark.parametrize(("lines", "sentence"), list(errors()))
def test_errors_are_answered_with_servfail_and_logged(
    folder: Path, caplog: pytest.LogCaptureFixture, lines: str, sentence: str
) -> None:
    plugin = handler(
        f"timeout = 0.01\n{lines}\nglobal A\nA = RR(Name.from_text('www.'), 1, 30, b'1234')"
    )
    runtime = FakeRuntime()
    with caplog.at_level(logging.INFO, logger="hsdns.plugin.python"):
        assert ask(plugin, runtime=runtime) == unwritten(Rcode.SERVFAIL)
    (line,) = caplog.records
    wanted = f"plugin/python: mine:Mine {sentence}".replace("FOLDER", str(folder))
    assert (line.levelname, line.getMessage()) == ("ERROR", f"{wanted}, query: www.example.org. A")
    assert runtime.metrics.counter("hsdns_python_errors_total").values == {("mine:Mine",): 1}


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
    assert runtime.metrics.counter("hsdns_python_errors_total").values == {}


# --- start and stop ---

START_AND_STOP = """\
calls = ()
async def start(self, runtime):
    self.calls += ('start',)
    self.task = asyncio.create_task(asyncio.Event().wait())
    if self.options.args[0] == 'fails': raise ConnectionError('nobody there')
async def stop(self):
    self.calls += ('stop',)
    self.task.cancel()
    if self.options.args[0] == 'awaits': await self.task
    raise ValueError('cannot')
async def handle(self, request, next): return Reply()
"""


def test_stop_is_called_for_each_started_handler(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the others do, such as to await a task that they have cancelled."""
    words = ("one", "awaits", "fails", "late")
    plugin = handler(START_AND_STOP, "\n".join(f"python mine:Mine {word}" for word in words))

    async def test() -> str:
        with pytest.raises(CorefileError) as caught:
            await plugin.start(FakeRuntime())
        await plugin.stop()
        await plugin.stop()
        return str(caught.value)

    sentence = r'Corefile:4:8: "mine:Mine" failed to start: ConnectionError: nobody there \(\S+/mine.py:10\)'
    assert re.fullmatch(sentence, run(test()))
    both = ("start", "stop")
    assert [getattr(guard.user, "calls", None) for guard in plugin._handlers] == [
        both,
        both,
        both,
        (),
    ]
    assert caplog.text.count("mine:Mine failed to stop: ValueError: cannot") == 2


@pytest.mark.parametrize("name", ["stop", "handle"])
async def test_it_can_be_cancelled(name: str) -> None:
    plugin = handler(
        "async def stop(self): await asyncio.Event().wait()\n"
        "async def handle(self, request, next): await asyncio.Event().wait()"
    )
    await plugin.start(FakeRuntime())
    call = (
        plugin.stop() if name == "stop" else plugin.handle(make_request("www."), next_with(BELOW))
    )
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


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


CLUSTER = """\
.:PORT {
    bind 127.0.0.1
    python mine:Mine
    kubernetes cluster.local
}
"""


@pytest.mark.sockets
@pytest.mark.parametrize("cacheable", [True, False])
async def test_the_answer_table_is_enabled_only_if_cacheable(folder: Path, cacheable: bool) -> None:
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
