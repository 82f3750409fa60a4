"""A headless Chromium, driven over its DevTools protocol.

Path: tests and docs/pictures only.
Rule 1: it knows no name but those that it is given, and does nothing by itself in the background: no test needs a network.
Rule 2: a test waits for a condition that the page looks at, never for a time.
Source: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

PROGRAM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)  # fmt: skip
TIMEOUT: Final = 60.0  # seconds for one command, on a busy machine
# What a key is called in the events of a keyboard, where it is not the character itself.
KEYS: Final = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39}  # fmt: skip
_OPTIONS: Final = (
    "--headless=new --remote-debugging-port=0 --no-first-run --no-default-browser-check --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --disable-gpu --disable-dev-shm-usage "
    "--hide-scrollbars --mute-audio --force-color-profile=srgb --lang=en"
).split()


class Tab:
    """A page that is open; `complaints` has what failed in it: exceptions, and what its policy forbids."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []  # the addresses of all requests
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
                continue
            values = told["params"]
            match told["method"]:
                case "Page.loadEventFired":
                    self._loaded.set()
                case "Runtime.exceptionThrown":
                    self.complaints.append(str(values["exceptionDetails"]))
                case "Log.entryAdded" if values["entry"]["source"] == "security":
                    self.complaints.append(values["entry"]["text"])
                case "Network.requestWillBeSent":
                    self.asked.append(values["request"]["url"])

    async def command(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command; raise AssertionError if it fails."""
        number = next(self._numbers)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": values})
        async with asyncio.timeout(TIMEOUT):
            told = await answered
        assert "error" not in told, (method, told["error"])
        result: dict[str, Any] = told["result"]
        return result

    async def open(self, url: str) -> None:
        """Go to an address, and wait until it has loaded."""
        self._loaded.clear()
        await self.command("Page.navigate", url=url)
        async with asyncio.timeout(TIMEOUT):
            await self._loaded.wait()

    async def show(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Have a window of this size in CSS pixels, light or dark."""
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.command("Emulation.setEmulatedMedia", features=[scheme])

    async def value(self, expression: str) -> Any:
        """What an expression of JavaScript is, waited for if it is a promise."""
        made = await self.command(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in made, made["exceptionDetails"]
        return made["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until an expression holds; raise TimeoutError with what the page shows."""
        look = (
            f"new Promise((go) => {{ const holds = () => {{ try {{ return {condition} }} catch {{}} }};"
            " const look = () => holds() ? go() : setTimeout(look, 10); look(); })"
        )
        try:
            await self.value(look)
        except TimeoutError:
            shown = await self.value("document.body.innerText")
            raise TimeoutError(f"{condition} does not hold; the page shows:\n{shown}") from None

    async def press(self, *keys: str) -> None:
        """Press keys: characters, or the names of KEYS."""
        for key in keys:
            code = KEYS.get(key, ord(key[0].upper()))
            text = "\r" if key == "Enter" else "" if key in KEYS else key
            known = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            await self.command("Input.dispatchKeyEvent", type="keyDown", text=text, **known)
            await self.command("Input.dispatchKeyEvent", type="keyUp", **known)

    async def write(self, text: str) -> None:
        """Write into what has the focus."""
        await self.command("Input.insertText", text=text)

    async def picture(self) -> bytes:
        """The whole page as PNG."""
        taken = await self.command("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(taken["data"])

    async def close(self) -> None:
        """Stop listening."""
        await self._socket.close()
        await self._reader


@asynccontextmanager
async def tab(*names: str) -> AsyncIterator[Tab]:
    """A browser with one page, in a folder of its own; these names lead to 127.0.0.1, and all others nowhere."""
    assert PROGRAM is not None, "installed"
    rules = [*(f"MAP {name} 127.0.0.1" for name in names), "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1", "EXCLUDE localhost"]  # fmt: skip
    words = [*_OPTIONS, f"--host-resolver-rules={', '.join(rules)}"]
    if os.geteuid() == 0:
        words.append("--no-sandbox")  # it has none for root
    with tempfile.TemporaryDirectory(prefix="hsdns-", ignore_cleanup_errors=True) as folder:
        browser = await asyncio.create_subprocess_exec(
            PROGRAM, *words, f"--user-data-dir={folder}", "about:blank",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": folder, "TZ": "UTC"},
        )  # fmt: skip
        assert browser.stderr is not None
        try:
            port = await _port(browser.stderr)
            silent = asyncio.create_task(_read_all(browser.stderr))
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                    pages = [each for each in await response.json() if each["type"] == "page"]
                address = pages[0]["webSocketDebuggerUrl"]
                socket = await session.ws_connect(address, max_msg_size=0)
                opened = Tab(socket)
                for part in ("Page", "Runtime", "Log", "Network"):
                    await opened.command(f"{part}.enable")
                try:
                    yield opened
                finally:
                    await opened.command("Browser.close")
                    await opened.close()
            await silent
        finally:
            if browser.returncode is None:
                async with asyncio.timeout(TIMEOUT):
                    await browser.wait()


async def _port(lines: asyncio.StreamReader) -> int:
    """The port of the protocol, which Chromium writes once it listens."""
    async with asyncio.timeout(TIMEOUT):
        async for line in lines:
            if found := re.search(rb"listening on ws://[^:]+:(\d+)/", line):
                return int(found[1])
    raise AssertionError("chromium ended before it listened")


async def _read_all(lines: asyncio.StreamReader) -> None:
    async for _ in lines:
        pass
