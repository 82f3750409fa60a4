"""Requests to a running server through its control socket; without a path, to the only one that runs.

Path: subcommands -> here -> http.py of the server; docs/openapi.yaml describes the pages.
Rule 1: each error is a sentence, and the exit status of the command is 2: the result is unknown.
Rule 2: an address in place of a path uses TCP, with the token from the environment.
Rule 3: /version shows whether the server has the API, before any other request.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from hsdns import __version__
from hsdns.cli.command import CONTROL, OUTPUT, Command, Contradiction, complain, flag, say, say_json
from hsdns.cli.control_path import TOKEN, address_of, sockets
from hsdns.errors import OperatorError
from hsdns.server.host import listens

API: Final = "v1"
STATUS: Final = 2  # of a command without a result
TIMEOUT: Final = 10.0  # seconds for the server to answer, or to continue


class ServerError(OperatorError):
    """A request to a running server failed; the message is a sentence."""

    status = STATUS


class NoSuchPage(ServerError):
    """The server has no such page, or no content for it."""


class NotRunning(ServerError):
    """No server was given, and none runs."""


class Refused(ServerError):
    """A server refused a request."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path, self._timeout = path, timeout

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout)
        self.sock.connect(str(self._path))


def _connect(path: Path, timeout: float | None) -> http.client.HTTPConnection:
    address = address_of(str(path))
    if address is None:
        return _Connection(path, timeout)
    return http.client.HTTPConnection(address.host, address.port, timeout=timeout)


class RunningServer(NamedTuple):
    """A server with the API of this hsdns."""

    path: Path
    pid: int
    version: str

    def get(self, page: str) -> dict[str, Any]:
        """The object at a path such as `/v1/server`; raise ServerError."""
        (found,) = self.lines(page)
        return found

    def lines(
        self, page: str, method: str = "GET", body: bytes = b"", *, is_endless: bool = False
    ) -> Iterator[dict[str, Any]]:
        """The objects of a page of JSON lines, as they arrive; raise ServerError, also if it ends early.

        `is_endless` waits for the next one without a timeout.
        """
        return _read(_lines(self.path, page, method, body, is_endless=is_endless), self.path, page)

    def octet_lines(self, page: str) -> Iterator[bytes]:
        """The lines of an endless page, as they arrive; raise ServerError."""
        return _lines(self.path, page, is_endless=True)

    def dns_addresses(self) -> list[tuple[str, int]]:
        """The addresses and ports on which it answers plain DNS, of all of this host as loopback; raise ServerError."""
        hosts = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
        return [
            (hosts.get(each["host"], each["host"]), each["port"])
            for each in self.get("/v1/server")["listeners"]
            if each["scheme"] == "dns"
        ]

    def dns_address(self) -> tuple[str, int]:
        """The first of them; raise ServerError."""
        for each in self.dns_addresses():
            return each
        raise ServerError(
            f"the server at {self.path} answers no plain DNS, so no resolver can query it"
        )


def find(path: str | None) -> RunningServer:
    """The server at a path, or without one the only server that runs; raise ServerError, NotRunning for none."""
    if path is not None:
        return _ask(Path(path))
    running: list[Path] = []
    closed: list[Path] = []
    for each in sockets():
        try:
            if listens(each):
                running.append(each)
        except PermissionError:
            closed.append(each)
        except OSError:  # it has just been removed, or is not a socket
            continue
    if not running and closed:
        raise ServerError(
            f"the server at {closed[0]} belongs to another user; run this as that user"
        )
    if not running:
        raise NotRunning(
            'no server is running; start one with "hsdns serve", or add --control PATH'
        )
    if len(running) > 1:
        found = ", ".join(map(str, running))
        raise Contradiction(f"{len(running)} servers run: {found}; choose one with --control PATH")
    return _ask(running[0])


class ServerCommand(Command):
    """A command for a running server; an error of the server ends it with STATUS, a refusal with `refused`."""

    refused: ClassVar[int] = STATUS

    control: str | None = flag(None, CONTROL)

    def server(self) -> RunningServer:
        """The server of --control, or without it the only one that runs; raises the same as find()."""
        return looking_at(self.control)

    @classmethod
    def status_of(cls, error: Exception) -> int:
        """The exit status after an error."""
        return cls.refused if isinstance(error, Refused) else super().status_of(error)


class Dashboard(ServerCommand):
    """Prints the URL of the web page, with its token."""

    name = "dashboard"
    o: str = flag("text", OUTPUT)

    def run(self) -> int:
        """Print it."""
        server = self.server()
        url = server.get("/v1/server").get("dashboard")
        if not url:
            raise ServerError(
                f"the server at {server.path} has no web page; start it with hsdns serve --dashboard, "
                "or write dashboard 127.0.0.1:8053 in the Corefile"
            )
        say_json({"url": url}) if self.o == "json" else say(url)
        return 0


def looking_at(control: str | None) -> RunningServer:
    """The server of --control, or the only one that runs, which standard error names; raises the same as find()."""
    server = find(control)
    if control is None:
        complain(f"looking at the server with process ID {server.pid}, at {server.path}")
    return server


def _ask(path: Path) -> RunningServer:
    (found,) = _read(_lines(path, "/version"), path, "/version")
    version, pid, api = (found.get(name) for name in ("version", "pid", "api"))
    if found.get("server") != "hsdns" or not isinstance(api, list) or not isinstance(pid, int):
        raise ServerError(
            f"the program at {path} is not hsdns; name another socket with --control PATH"
        )
    if API not in api:
        spoken = ", ".join(map(str, api)) or "no version"
        raise ServerError(
            f"the server at {path} is hsdns {version}, whose control API has {spoken}; "
            f"hsdns {__version__} needs {API}, so use the hsdns of the server"
        )
    return RunningServer(path, pid, str(version))


def _read(lines: Iterator[bytes], path: Path, page: str) -> Iterator[dict[str, Any]]:
    try:
        for line in lines:
            yield json.loads(line)
    except ValueError as error:
        raise _other_program(path, page, error) from None


def _other_program(path: Path, page: str, error: Exception) -> ServerError:
    name = type(error).__name__
    return ServerError(f"the program at {path} did not answer {page} as hsdns does ({name})")


def _lines(
    path: Path, page: str, method: str = "GET", body: bytes = b"", *, is_endless: bool = False
) -> Iterator[bytes]:
    connection = _connect(path, None if is_endless else TIMEOUT)
    token = os.environ.get(TOKEN, "") if address_of(str(path)) is not None else ""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, page, body or None, headers)
        response = connection.getresponse()
        if response.status != 200:
            kinds = {400: Refused, 403: Refused, 404: NoSuchPage}
            raise kinds.get(response.status, ServerError)(_refusal(path, page, response))
        rest = b""
        # readline() would treat the end of the connection as the end of the page.
        while found := response.read1(65_536):
            *lines, rest = (rest + found).split(b"\n")
            yield from lines
        if rest:
            yield rest
    except FileNotFoundError:
        raise ServerError(
            f"there is no control socket {path}; start the server with --control {path}"
        ) from None
    except ConnectionRefusedError:
        left = "" if address_of(str(path)) is not None else ", which a killed server left behind"
        raise ServerError(f"no server listens on {path}{left}; start it again") from None
    except TimeoutError:
        raise ServerError(
            f"the server at {path} did not answer within {TIMEOUT:g} seconds"
        ) from None
    except http.client.IncompleteRead:
        raise ServerError(
            f"the server at {path} ended before all of {page} was read; try again"
        ) from None
    except (http.client.HTTPException, ValueError) as error:
        raise _other_program(path, page, error) from None
    except OSError as error:
        raise ServerError(f"cannot reach the server at {path}: {error.strerror or error}") from None
    finally:
        connection.close()


def _refusal(path: Path, page: str, response: http.client.HTTPResponse) -> str:
    """The sentence of the server, or its status if there is none."""
    try:
        return str(json.loads(response.read(65_536))["error"])
    except (ValueError, KeyError, TypeError):
        return f"the program at {path} answers {page} with status {response.status}, so it is another program"
