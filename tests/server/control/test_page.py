"""The page as a browser shows it, and what the browser allows it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from hsdns.explanation.report import Explanation
from hsdns.http_page import AccessToken, HttpRefusal, HttpStream, PageRequest
from hsdns.server.control.door import Door, kubernetes_blocks, to_line
from hsdns.server.control.routes import EVENTS, FILE, HTML, events, headers, page
from hsdns.server.http.pages import HttpListeners, HttpPages
from hsdns.server.transport.admission import Places
from loadtest.ports import free_port
from tests.server.control.served import BLOCK, write_manifest
from tests.server.loopback import ReloadableServer, running, serving
from tests.support.browser.chromium import PROGRAM, Tab, tab
from tests.support.cluster.objects import service, upserts
from tests.support.coroutines.event_loops import run

TIME = "2026-11-22T21:00:{:02}.000+00:00"
QUIET: dict[str, Any] = {
    "time": TIME.format(0), "uptime_seconds": 100.0,
    "rates": {"queries_per_second": 0, "table_share": 0, "by_type": {}, "by_rcode": {}},
    "past": [], "failing": [], "changes": [], "slowest": [], "search_waste": [], "upstreams": [], "faults": [],
}  # fmt: skip
NO_DOOR = cast("Door", None)  # neither the page nor a stand-in reads the server


class Stand:
    """Stands for a server: `pictures` are what it shows, `explanations` what it says about a name."""

    def __init__(self, token: str | None = None) -> None:
        self.pictures: list[dict[str, Any]] = [QUIET]
        self.explanations: dict[str, dict[str, Any]] = {}
        self.refusal = ""  # what it says in place of pictures
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._token = None if token is None else AccessToken(token)
        self._more = asyncio.Event()
        self._address = "127.0.0.1:0"
        self._listeners = HttpListeners(Places(64))

    @property
    def url(self) -> str:
        return f"http://{self._address}/"

    async def start(self) -> None:
        """Listen, after a stop at the same port."""
        pages = HttpPages()
        names = ("namespace", "name")
        pages.serve(
            self._address,
            {
                "/": HttpStream(HTML, partial(page, NO_DOOR), headers=headers()),
                "/v1/top/events": HttpStream(
                    EVENTS, partial(events(self._top), NO_DOOR), self._token, names
                ),
                "/v1/explain": HttpStream(
                    "application/json", self._explain, self._token, ("name", "type")
                ),
            },
        )
        await self._listeners.open(pages)
        ((host, port),) = self._listeners.bound.values()
        self._address = f"{host}:{port}"

    async def stop(self) -> None:
        """End all streams and close the socket."""
        await self._listeners.close()

    def show(self, picture: dict[str, Any]) -> None:
        """Show one more picture."""
        self.pictures.append({**QUIET, "time": TIME.format(len(self.pictures) % 60), **picture})
        self._more.set()
        self._more = asyncio.Event()

    async def _top(self, door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        self.asked.append(("top", dict(asked.parameters)))
        if self.refusal:
            raise HttpRefusal(503, self.refusal)
        at = max(len(self.pictures) - 70, 0)
        while True:
            while at < len(self.pictures):
                yield to_line(self.pictures[at])
                at += 1
            await self._more.wait()

    async def _explain(self, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        name = asked.parameters["name"]
        self.asked.append(("explain", dict(asked.parameters)))
        if name not in self.explanations:
            raise HttpRefusal(400, f"{name} is not in the test")
        yield json.dumps(self.explanations[name]).encode()


@asynccontextmanager
async def shown(*names: str, token: str | None = None) -> AsyncIterator[tuple[Stand, Tab]]:
    """A stand-in, and a browser to look at it."""
    stand = Stand(token)
    await stand.start()
    try:
        async with tab(*names) as opened:
            yield stand, opened
    finally:
        await stand.stop()


in_a_browser = [
    pytest.mark.sockets,
    pytest.mark.night,
    pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed"),
]
LIVE = "document.querySelector('#state').textContent.startsWith('live')"
EXPLAINED = "document.querySelector('#tree li')"
FOCUSED = "document.activeElement.textContent"
DB = "db.shop.svc.cluster.local."
CAUSE = "0 of 2 endpoints of Service shop/db are ready"


def read(file: str, **words: str) -> dict[str, Any]:
    """A file of JSON with these words in place of those in braces."""
    text = Path(__file__).with_name(file).read_text()
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", json.dumps(word)[1:-1])
    found: dict[str, Any] = json.loads(text)
    return found


def a_picture(name: str = DB, cause: str = CAUSE, **more: Any) -> dict[str, Any]:
    return {**read("picture.json", NAME=name, CAUSE=cause), **more}


def an_explanation(name: str = DB, text: str = "", endpoints: int = 2) -> dict[str, Any]:
    """As /v1/explain has it; the text is in each place that a cluster or a client can fill."""
    found = read("explanation.json", NAME=name, TEXT=text)
    if not text:
        found |= {"blind": [], "records": []}
    (part,) = found["service"]["slices"]
    part["endpoints"] *= endpoints // 2
    msgspec.convert(found, Explanation)
    return found


Case = Callable[[Stand, Tab], Awaitable[None]]


def show(case: Case, *names: str, token: str | None = None) -> None:
    """Run a case with a page that is live; it must have asked its own server alone, and have done nothing forbidden."""

    async def whole() -> None:
        async with shown(*names, token=token) as (stand, tab):
            await tab.show(1280)
            await tab.open(stand.url)
            if token is None:
                await tab.until(LIVE)
            await case(stand, tab)
            assert tab.complaints == []
            assert {re.sub(r"(?<=\d)/.*", "/", url) for url in tab.asked} <= {
                stand.url,
                "about:blank",
            }

    run(whole())


# --- without a browser ---


def test_the_policy_allows_what_is_in_the_file() -> None:
    text = FILE.read_text()
    policy = dict(part.split(" ", 1) for part in headers()["Content-Security-Policy"].split("; "))
    for directive, element in (("script-src", "script"), ("style-src", "style")):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[directive] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self'"


def test_the_file_names_no_other_place() -> None:
    text = FILE.read_text()
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|\beval\b|document\.write|\sstyle=", text
    )


# --- in a browser ---


class TestBrowser:
    pytestmark = in_a_browser

    def test_numbers(self) -> None:
        async def case(stand: Stand, tab: Tab) -> None:
            for _ in range(3):
                stand.show(a_picture())
            await tab.until("document.querySelectorAll('#figures svg').length === 8")
            assert await tab.value("document.querySelector('#figures').innerText.split('\\n')") == [
                "queries a second", "1,250", "from the answer table", "98 %", "A", "900", "AAAA", "350",
                "NOERROR", "1,000", "NXDOMAIN", "250", "queries, last 15 min", "≤ 1,100/s",
                "failing, last 15 min", "≤ 250/s",
            ]  # fmt: skip
            rows = {
                name: await tab.value(
                    f"[...document.querySelectorAll('#{name} td')].map((each) => each.textContent)"
                )
                for name in ("faults", "failing", "changes", "slowest", "search_waste", "upstreams")
            }
            assert rows == {
                "faults": ["lossy: drop type AAAA", "12", "598 s"],
                "failing": [
                    DB,
                    "A",
                    "NXDOMAIN",
                    "14",
                    "21:00:01",
                    f"{CAUSE}kubectl -n shop describe pod db-0",
                ],
                "changes": [DB, "added", "10.244.0.7", "21:00:09", "8.4 ms"],
                "slowest": [DB, "AAAA", "182 ms", "dns://:53"],
                "search_waste": ["10.244.0.9", "410", "328", DB],
                "upstreams": ["10.0.0.2:53", "31", "4", ""],
            }
            assert await tab.value("document.querySelector('#names option').value") == DB
            assert await tab.value("document.querySelector('#namespaces option').value") == "shop"

        show(case)

    def test_looks(self, tmp_path: Path) -> None:
        """At each width and in both schemes: nothing is cut off, and each text can be read against what is behind it."""

        async def case(stand: Stand, tab: Tab) -> None:
            pale = Path(__file__).with_name("pale.js").read_text()
            long = f"{'x' * 63}.{'y' * 63}.shop.svc.cluster.local."
            stand.explanations = {DB: an_explanation(endpoints=40), long: an_explanation(long)}
            for _ in range(60):
                stand.show(a_picture())
            stand.show(a_picture(long, cause=f"there is no Service shop/{'y' * 63}"))
            await tab.until("document.querySelector('#failing a').textContent.startsWith('xxx')")
            for name in ("", DB, long):
                await tab.value(f"location.hash = '{name}'")
                await tab.until(EXPLAINED if name else "document.querySelector('#why').hidden")
                for width in (360, 1280):
                    for dark in (False, True):
                        await tab.show(width, dark=dark)
                        png = await tab.picture()
                        where = f"{width}-{'dark' if dark else 'light'}-{name[:2]}"
                        (tmp_path / f"{where}.png").write_bytes(png)
                        assert struct.unpack(">I", png[16:20]) == (width,), where
                        assert await tab.value("document.documentElement.scrollWidth") <= width, (
                            where
                        )
                        assert await tab.value(pale) == [], where
            folded = "[...document.querySelectorAll('summary')].map((each) => each.textContent)"
            await tab.value(f"location.hash = '{DB}'")
            await tab.until(f"{folded}.includes('… and 30 more')")

        show(case)

    def test_keyboard(self) -> None:
        async def case(stand: Stand, tab: Tab) -> None:
            stand.explanations = {DB: an_explanation(), DB[:-1]: an_explanation()}
            await tab.press("/")
            await tab.write(DB[:-1])
            await tab.press("Enter")
            await tab.until(EXPLAINED)
            assert await tab.value(FOCUSED) == f"NXDOMAIN: {CAUSE}"
            seen = []
            for _ in range(7):
                await tab.press("ArrowDown")
                seen.append((await tab.value(FOCUSED)).partition(":")[0])
            assert seen == [
                f"{DB[:-1]} A", "Service shop/db", "EndpointSlice db-1", "for the name to exist", "names that exist",
                "web.shop.svc.cluster.local.", "last changes, the newest first",
            ]  # fmt: skip
            for _ in range(5):
                await tab.press("ArrowUp")
            assert (await tab.value(FOCUSED)).startswith("Service shop/db")
            is_open = "document.activeElement.parentElement.open"
            for key, expected in (("ArrowLeft", False), ("ArrowRight", True), ("Enter", False)):
                await tab.press(key)
                assert await tab.value(is_open) is expected
            ring = "getComputedStyle(document.activeElement).outlineStyle"
            assert await tab.value(ring) == "solid"
            await tab.press("Escape")
            await tab.until("document.querySelector('#why').hidden")
            assert await tab.value("location.hash") == ""
            stand.show(a_picture())
            await tab.until("document.querySelector('#failing a')")
            await tab.press("ArrowDown", "Enter")
            await tab.until(EXPLAINED)
            assert await tab.value("location.hash") == f"#{DB}"

        show(case)

    def test_texts_are_no_html(self) -> None:
        text = "<img src=x onerror=alert(1)><script>alert(2)</script>&amp;\"'"

        async def case(stand: Stand, tab: Tab) -> None:
            name = f"{text}.shop.svc.cluster.local."
            stand.explanations = {name: an_explanation(name, text)}
            stand.show(
                a_picture(
                    name,
                    text,
                    changes=[{**a_picture(name)["changes"][0], "record": text, "change": text}],
                    upstreams=[{"address": text, "per_second": 1, "failures": 0, "p50_ms": 1}],
                    rates={"queries_per_second": 1, "table_share": None, "by_type": {text: 1}, "by_rcode": {text: 1}},
                )
            )  # fmt: skip
            await tab.until("document.querySelector('#failing a')")
            assert await tab.value("document.querySelector('#failing a').textContent") == name
            await tab.press("ArrowDown", "Enter")
            await tab.until(EXPLAINED)
            assert (
                await tab.value("document.querySelector('#cause').textContent")
                == f"NXDOMAIN: {CAUSE}{text}"
            )
            assert await tab.value(
                "document.querySelector('#tree').textContent.includes('<img src=x')"
            )
            assert await tab.value("document.querySelectorAll('img, script').length") == 1
            made = "try { document.body.innerHTML = '<p>'; false } catch (error) { error instanceof TypeError }"
            assert await tab.value(made), "the browser would allow it"
            tab.complaints.clear()

        show(case)

    def test_a_link_can_be_shared(self) -> None:
        async def case(stand: Stand, tab: Tab) -> None:
            name = "_http._tcp.db/x y.shop.svc.cluster.local."
            stand.explanations = {name: an_explanation(name)}
            await tab.open("about:blank")
            await tab.open(f"{stand.url}#{name.replace('/', '%2F').replace(' ', '%20')}/SVCB")
            await tab.until(EXPLAINED)
            assert ("explain", {"name": name, "type": "SVCB"}) in stand.asked
            stand.asked.clear()
            assert await tab.value("document.querySelector('#asked').textContent") == f"{name} SVCB"
            again = await tab.value("document.querySelector('#asked').href")
            await tab.open("about:blank")
            await tab.open(again)
            await tab.until(EXPLAINED)
            assert ("explain", {"name": name, "type": "SVCB"}) in stand.asked

        show(case)

    def test_what_the_server_refuses_is_told(self) -> None:
        async def case(stand: Stand, tab: Tab) -> None:
            await tab.value("location.hash = 'nope'")
            await tab.until("document.querySelector('#why.could-not-tell')")
            cause = await tab.value("document.querySelector('#cause').textContent")
            assert cause == "No explanation: nope is not in the test"
            stand.refusal = "the server starts or ends"
            await tab.value("again()")
            await tab.until("state.textContent === 'the server starts or ends'")
            stand.refusal = ""
            await tab.until(LIVE)

        show(case)

    def test_a_server_that_restarts(self) -> None:
        async def case(stand: Stand, tab: Tab) -> None:
            stand.show(a_picture())
            await tab.until("document.querySelector('#failing a')")
            await stand.stop()
            await tab.until(
                "document.querySelector('#state').textContent.startsWith('no answer since')"
            )
            assert await tab.value("document.querySelector('#numbers').classList.contains('old')")
            assert await tab.value("document.querySelector('#failing a').textContent") == DB
            stand.pictures.clear()
            stand.show({"uptime_seconds": 1.0})
            await stand.start()
            await tab.until(LIVE)
            assert "the server has restarted at" in await tab.value(
                "document.querySelector('#state').textContent"
            )
            assert not await tab.value(
                "document.querySelector('#numbers').classList.contains('old')"
            )

        show(case)

    def test_the_token_of_an_address(self) -> None:
        async def case(stand: Stand, tab: Tab) -> None:
            await tab.until("!document.querySelector('#token').hidden")
            await tab.value("document.querySelector('#token input').focus()")
            await tab.write("secret")
            await tab.press("Enter")
            await tab.until(LIVE)
            assert await tab.value("document.querySelector('#token').hidden")
            assert stand.asked == [("top", {})]
            await tab.value("sessionStorage.clear()")
            await tab.open("about:blank")
            await tab.open(f"{stand.url}#token=secret")  # as the server prints it
            await tab.until(LIVE)
            assert await tab.value("location.hash") == ""

        show(case, token="secret")

    async def test_faults(self, tmp_path: Path) -> None:
        """A rule is added, tried, seen to hit, refused and removed; a page without the right to has no form."""
        text = BLOCK.replace("control c.sock", "dashboard 127.0.0.1:0").replace(
            "manifests", "synthetic services=1 #"
        )
        told = "document.querySelector('#told').textContent"
        address = f"127.0.0.1:{free_port()}"
        reloadable = ReloadableServer(tmp_path, text, faults=True, control=((address, "secret"),))
        async with running(reloadable), tab() as opened:
            await opened.open(reloadable.server.door.page())
            await opened.until(LIVE)
            for rule, answer in (
                ("dorp", "did you mean"),
                ("drop type TXT named x", "added: drop type TXT"),
            ):
                await opened.value("document.querySelector('#fault input').focus()")
                await opened.value("document.querySelector('#fault input').value = ''")
                await opened.write(rule)
                await opened.press("Enter")
                await opened.until(f"{told}.includes('{answer}')")
            await opened.until("document.querySelector('#faults button')")
            await opened.value("document.querySelector('#faults button').click()")
            await opened.until(f"{told} === 'x has ended after 0 hits'")
            host, port = reloadable.server.http.bound["127.0.0.1:0"]
            await opened.open(f"http://{host}:{port}/")
            await opened.until(LIVE)
            assert await opened.value("document.querySelector('#fault').hidden")

    def test_other_sites_are_kept_out(self) -> None:
        """One whose name leads here, and one that asks from its own address."""

        async def case(stand: Stand, tab: Tab) -> None:
            stand.asked.clear()
            port = stand.url.split(":")[-1]
            await tab.open(f"http://evil.example:{port}")
            assert "may be that of another site" in await tab.value("document.body.innerText")
            await tab.open(f"http://localhost:{port}")
            await tab.until(LIVE)
            stand.asked.clear()
            # Its own policy would keep the page from asking, so another one without a policy asks.
            await tab.open(f"http://localhost:{port}/v1/none")
            ask = f"fetch('{stand.url}v1/explain?name=x').then(() => 'read', () => 'kept out')"
            assert await tab.value(ask) == "kept out"
            post = f"fetch('{stand.url}v1/explain?name=x', {{mode: 'no-cors', method: 'POST'}}).then(() => 'sent', () => 'kept out')"
            assert await tab.value(post) == "kept out"
            assert stand.asked == []
            tab.asked[:] = [stand.url]

        show(case, "evil.example")

    async def test_with_a_server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name that fails is shown, explained, and shown to resolve once the cluster has it; through a reload."""
        monkeypatch.chdir(tmp_path)
        text = BLOCK.replace("control c.sock", "dashboard 127.0.0.1:0").replace(", port: 80", "")

        write_manifest()
        reloadable = ReloadableServer(tmp_path, text)
        async with running(reloadable), tab() as opened:
            host, port = reloadable.server.http.bound["127.0.0.1:0"]
            await opened.open(f"http://{host}:{port}/")
            await opened.until(LIVE)
            assert "NXDOMAIN" in await reloadable.ask("db.shop.svc.cluster.local")
            await opened.until("document.querySelector('#failing a')")
            await opened.press("ArrowDown", "Enter")
            await opened.until(EXPLAINED)
            cause = "document.querySelector('#cause').textContent"
            assert await opened.value(cause) == "NXDOMAIN: there is no Service shop/db"
            assert await reloadable.server.reload()
            block = kubernetes_blocks(serving(reloadable.server))[0]
            block.store.apply(upserts(service("shop/db", "10.96.7.8")))
            await opened.until(
                "document.querySelector('#changes').textContent.includes('10.96.7.8')"
            )
            await opened.press("/", "Enter")
            await opened.until(f"{cause}.startsWith('NOERROR')")
            assert opened.complaints == []
