"""The client over sockets: requests, faults, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import os
import re
import shutil
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hsdns.apiserver.access import Access, Endpoint, InCluster, Pem
from hsdns.apiserver.client import ApiClient, TlsContexts, describe, user_agent
from hsdns.apiserver.connections import (
    BUFFER_LEN,
    MAX_HEAD_LEN,
    READ_LEN,
    Connections,
    ConnectTimeout,
    HttpConnection,
    HttpFault,
    Incomplete,
    Lost,
    NoResponse,
    NotHttp,
    ProxyRefused,
    ProxyUnreachable,
    Route,
    head_of,
    make_socket,
)
from hsdns.apiserver.transport import Away, Unreachable
from hsdns.metrics import Registry
from tests.support.apiserver.fixed_access import FixedAccess
from tests.support.apiserver.scripted_http import (
    TLS_DATA,
    Said,
    ScriptedServer,
    chunked,
    said,
    server_context,
)

pytestmark = pytest.mark.sockets


class Setting:
    """A client with its clock, registry and warnings."""

    def __init__(
        self, source: FixedAccess | InCluster | Endpoint, headers_timeout: float = 5.0
    ) -> None:
        self.registry = Registry()
        self.warnings: list[str] = []
        self.now = 0.0
        self.client = ApiClient(
            source,
            self.registry,
            lambda: self.now,
            self.warnings.append,
            headers_timeout=headers_timeout,
        )

    async def ask(self, path: str = "/api/v1/services", **query: str) -> tuple[int, str]:
        async with self.client.get(path, query) as answer:
            return answer.status, await answer.text(4096)

    async def read(self, read_timeout: Callable[[], float], **query: str) -> list[bytes]:
        async with self.client.get("/api/v1/services", query) as answer:
            found = list[bytes]()

            def take(chunk: bytes) -> bool:
                found.append(chunk)
                return True

            await answer.feed(take, read_timeout)
            return found

    async def fails(self, read_timeout: float = 5.0, **query: str) -> str:
        """Return the message of a failing request."""
        with pytest.raises(Unreachable) as caught:
            await self.read(lambda: read_timeout, **query)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        return str(caught.value)

    @property
    def requests(self) -> dict[tuple[str, ...], float]:
        """Return the counter of requests."""
        return self.registry.counter("coredns_kubernetes_rest_client_requests_total").values


class Serving(ScriptedServer):
    """A scripted server, and the settings that ask it."""

    def __init__(
        self, answer: Callable[[str], Said] = lambda head: said(), tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(answer, tls)
        self._settings: list[Setting] = []

    def setting(self, source: Access | FixedAccess | Endpoint | None = None) -> Setting:
        """A client, by default of this server; it is closed at the end."""
        found = Access(self.url) if source is None else source
        self._settings.append(Setting(FixedAccess(found) if isinstance(found, Access) else found))
        return self._settings[-1]

    async def __aenter__(self) -> Serving:
        await super().__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        for each in self._settings:
            await each.client.close()
        await super().__aexit__(*error)


def header(head: str, name: str) -> list[str]:
    return re.findall(rf"(?im)^{name}: (.*?)\r$", head)


async def test_what_is_asked() -> None:
    async with Serving() as server:
        access = Access(
            server.url + "/k8s",
            authorization="Bearer abc",
            headers=(("Impersonate-User", "jane"), ("Impersonate-Group", "ops")),
        )
        setting = server.setting(access)
        assert await setting.ask("/api/v1/pods", labelSelector="a in (b,ü)", watch="1") == (
            200,
            "{}",
        )
        (head,) = server.requests
        assert head.startswith(
            "GET /k8s/api/v1/pods?labelSelector=a+in+%28b%2C%C3%BC%29&watch=1 HTTP/1.1\r\n"
        )
        assert header(head, "Authorization") == ["Bearer abc"]
        assert header(head, "Accept") == ["application/json"]
        assert header(head, "Accept-Encoding") == ["identity"]
        assert header(head, "Impersonate-User") == ["jane"]
        assert header(head, "User-Agent") == [user_agent()]
        assert setting.client.server == server.url + "/k8s"


def test_a_dead_peer_is_noticed_by_the_kernel() -> None:
    with make_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000


class TestFaults:
    @pytest.mark.parametrize(
        ("answer", "sentence"),
        [
            pytest.param(chunked(b"one", b"two", then="close"), "closed the connection before the end of its response", id="chunks-cut"),
            pytest.param(Said(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfive", "close"), "closed the connection before the end of its response", id="chunk-cut"),
            pytest.param(Said(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfive", "close"), "closed the connection before the end of its response", id="length-cut"),
            pytest.param(Said(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "hang"), "does not speak HTTP: ", id="no-chunk"),
            pytest.param(Said(b"", "close"), "closed the connection without a response", id="no-answer"),
            pytest.param(Said(b"HTTP/1.1 200", "close"), "closed the connection without a response", id="half-a-head"),
            pytest.param(Said(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "hang"), "does not speak HTTP: ", id="no-http"),
        ],
    )  # fmt: skip
    async def test_answer(self, answer: Said, sentence: str) -> None:
        async with Serving(lambda head: answer) as server:
            setting = server.setting()
            assert (await setting.fails()).startswith(f"{server.url} {sentence}")

    async def test_read_timeout_of_the_body(self) -> None:
        async with Serving(lambda head: chunked(b"one", then="hang")) as server:
            setting = server.setting()
            assert await setting.fails(0.05) == f"{server.url} has sent no data for 0.05 s"
            await asyncio.wait_for(server.ended.wait(), 30)

    @pytest.mark.parametrize("proxy", [False, True])
    async def test_not_there(self, proxy: bool) -> None:
        async with Serving() as server:
            url = "http://127.0.0.1:1"
            setting = server.setting(Access(url, proxy=server.url if proxy else ""))
            with pytest.raises(Unreachable) as caught:
                await setting.client.reach()
            assert isinstance(caught.value, Away) is not proxy
            assert server.connections == 0
            if not proxy:
                sentence = f"{url} refuses connections; is the API server running?"
                assert await setting.fails() == sentence
                assert setting.requests == {("<error>", "GET", "127.0.0.1:1"): 1}


class TestTls:
    @pytest.mark.parametrize(
        ("access", "advice"),
        [
            pytest.param(Access("", Pem(str(TLS_DATA / "other-ca.pem"))), f"is {TLS_DATA / 'other-ca.pem'} the CA of this cluster?", id="another-ca"),
            pytest.param(Access("", Pem(pem=(TLS_DATA / "other-ca.pem").read_text())), "does certificate-authority-data of the kubeconfig belong to this cluster?", id="another-pem"),
            pytest.param(Access(""), "give the CA of the cluster", id="no-ca"),
            pytest.param(Access("", Pem(str(TLS_DATA / "ca.pem")), tls_server_name="api.example.org"), "connect by a name that it contains, or set tls-server-name in a kubeconfig", id="name"),
        ],
    )  # fmt: skip
    async def test_an_invalid_certificate(self, access: Access, advice: str) -> None:
        async with Serving(tls=server_context()) as server:
            setting = server.setting(replace(access, server=server.url))
            found = await setting.fails()
            assert found.startswith(f"{server.url} presents an invalid certificate: ")
            assert advice in found
            assert server.requests == []


async def test_refused_credentials_are_invalidated() -> None:
    async with Serving(lambda head: said("401 Unauthorized")) as server:
        source = FixedAccess(Access(server.url, authorization="Bearer old"))
        assert (await server.setting(source).ask())[0] == 401
        assert source.forgotten == [source.access]


class TestProxy:
    async def test_tunnel(self) -> None:
        established = Said(b"HTTP/1.1 200 Connection established\r\n\r\n")
        tunnel = ScriptedServer(lambda head: established)
        async with Serving(tls=server_context()) as server, tunnel as proxy:
            proxy_url = proxy.url.replace("//", "//me:hunter2@")
            access = Access(server.url, Pem(str(TLS_DATA / "ca.pem")), authorization="Bearer abc")
            setting = server.setting(replace(access, proxy=proxy_url))
            assert (await setting.ask())[0] == 200
            (head,) = proxy.requests
            assert head.startswith(f"CONNECT 127.0.0.1:{server.port} ")
            assert header(head, "Proxy-Authorization") == ["Basic bWU6aHVudGVyMg=="]
            assert "Bearer" not in head

    async def test_its_password_is_hidden_in_each_form(self) -> None:
        async with Serving(lambda head: said("407 No")) as proxy:
            url = proxy.url.replace("//", "//me:hunt%40er2@")
            setting = proxy.setting(Access("https://192.0.2.1:443", proxy=url))
            await setting.fails()
            for form in ("hunt%40er2", "hunt@er2", b64encode(b"me:hunt@er2").decode()):
                assert setting.client.redact(f"your {form}") == "your [hidden]"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP", "identity, gzip"])
async def test_compressed_response_is_refused(encoding: str) -> None:
    """Of a bomb not an octet is unpacked."""
    body = gzip.compress(bytes(1_000_000))
    async with Serving(
        lambda head: said("200 OK", body, "keep", f"Content-Encoding: {encoding}")
    ) as server:
        setting = server.setting()
        assert await setting.fails() == (
            f"{server.url} sends a compressed response ({encoding}), which hsdns did not request; "
            "is there a proxy in front of it that compresses?"
        )


ACCESS = Access("https://host:443", Pem("/ca.crt"), proxy="http://me:hunter2@proxy:3128")
ALERT = "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required"


def unverified(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.verify_code, error.verify_message = code, message
    return error


def of_tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        pytest.param(ConnectionRefusedError(111, "no"), "refuses connections; is the API server running?", id="refused"),
        pytest.param(OSError(errno.ENETUNREACH, "Network is unreachable"), "cannot be reached: Network is unreachable", id="network"),
        pytest.param(socket.gaierror(-2, "Name or service not known"), "cannot be resolved: Name or service not known", id="name"),
        pytest.param(ConnectTimeout(), "does not accept a connection within 10 s", id="connecting"),
        pytest.param(TimeoutError(), "does not respond within 7 s", id="waiting"),
        pytest.param(TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "cannot be reached: Connection timed out", id="kernel"),
        pytest.param(Lost(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")), "cannot be reached: Connection reset by peer", id="reset"),
        pytest.param(NoResponse(), "closed the connection without a response", id="closed"),
        pytest.param(Incomplete(), "closed the connection before the end of its response", id="cut"),
        pytest.param(unverified(20, "unable to get local issuer certificate"), "presents an invalid certificate: unable to get local issuer certificate; is /ca.crt the CA of this cluster?", id="issuer"),
        pytest.param(unverified(10, "certificate has expired"), "presents an invalid certificate: certificate has expired; renew it on the control plane, or set this host's clock", id="expired"),
        pytest.param(unverified(9, "certificate is not yet valid"), "presents an invalid certificate: certificate is not yet valid; renew it on the control plane, or set this host's clock", id="too-early"),
        pytest.param(unverified(64, "IP address mismatch"), "presents an invalid certificate: IP address mismatch; connect by a name that it contains, or set tls-server-name in a kubeconfig", id="wrong-name"),
        pytest.param(of_tls("WRONG_VERSION_NUMBER"), "does not speak TLS; is its scheme http://?", id="no-tls"),
        pytest.param(of_tls("NO_PROTOCOLS_AVAILABLE"), "failed the TLS handshake: NO_PROTOCOLS_AVAILABLE", id="tls"),
        pytest.param(Lost(ssl.SSLError(1, ALERT)), f"closed the TLS connection: {ALERT}", id="alert"),
        pytest.param(NotHttp("Invalid  header\nvalue"), "does not speak HTTP: Invalid header value", id="http"),
        pytest.param(HttpFault("Bearer hunter2"), "cannot be reached: HttpFault", id="else"),
    ],
)  # fmt: skip
def test_describe(error: BaseException, sentence: str) -> None:
    assert describe(ACCESS, error, 7.0) == f"https://host:443 {sentence}"


def test_the_password_of_a_proxy_is_not_shown() -> None:
    error = ProxyUnreachable(ConnectionRefusedError(111, "refused"))
    assert describe(ACCESS, error, 1.0) == (
        "the proxy http://proxy:3128 on the way to https://host:443 cannot be reached: refused"
    )


CA, CERT, KEY = (TLS_DATA / name for name in ("ca.pem", "client.pem", "client.key"))


def access(
    authority: str | bytes | None = None,
    certificate: str | bytes | None = None,
    key: str | bytes | None = None,
    *,
    insecure: bool = False,
) -> Access:
    pems = (
        Pem(pem=each.decode("latin-1")) if isinstance(each, bytes) else Pem(each) if each else None
        for each in (authority, certificate, key)
    )
    return Access("https://host", *pems, insecure=insecure)  # type: ignore[misc, arg-type] # three


def context_for(wanted: Access) -> ssl.SSLContext:
    return TlsContexts(lambda sentence: None).context_for(wanted)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str = "127.0.0.1") -> str:
    """Do the handshake in memory; return the name in the client's certificate, or raise ssl.SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname=name)
    theirs = server.wrap_bio(there, back, server_side=True)
    for side in (ours, theirs, ours, theirs):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    found = theirs.getpeercert() or {}
    return str(found["subject"]) if found else ""


def trusts(client: ssl.SSLContext, server: str, name: str = "127.0.0.1") -> bool:
    try:
        shake_hands(client, server_context(server), name)
    except ssl.SSLCertVerificationError:
        return False
    return True


@pytest.mark.parametrize(
    ("authority", "trusted"),
    [
        pytest.param(str(CA), ["server"], id="file"),
        pytest.param(CA.read_bytes(), ["server"], id="pem"),
        pytest.param("Müller's CA\r\n".encode("latin-1") + CA.read_bytes(), ["server"], id="comment"),
        pytest.param(CA.read_bytes() + (TLS_DATA / "other-ca.pem").read_bytes(), ["server", "other-server"], id="two"),
        pytest.param((TLS_DATA / "server.pem").read_bytes(), ["server"], id="the-certificate-itself"),
        pytest.param(None, [], id="this-host-s"),
    ],
)  # fmt: skip
def test_trust(authority: str | bytes | None, trusted: list[str]) -> None:
    context = context_for(access(authority))
    assert [name for name in ("server", "other-server") if trusts(context, name)] == trusted
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize("in_memory", [True, False], ids=["memfd", "file"])
@pytest.mark.parametrize("as_file", [True, False], ids=["path", "pem"])
def test_client_certificate(
    as_file: bool, in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    pair = (str(CERT), str(KEY)) if as_file else (CERT.read_bytes(), KEY.read_bytes())
    context = context_for(access(str(CA), *pair))
    server = server_context()
    server.load_verify_locations(CA)
    server.verify_mode = ssl.CERT_REQUIRED
    assert "client" in shake_hands(context, server)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        pytest.param(access("missing"), "cannot read the CA file missing: No such file or directory", id="ca-missing"),
        pytest.param(access(str(KEY)), f"the CA file {KEY} contains no PEM certificate", id="ca-is-a-key"),
        pytest.param(access(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"), "the CA in the kubeconfig contains an invalid certificate: ", id="ca-broken"),
        pytest.param(access(str(CA), str(CERT), "missing"), "cannot read the key file missing: No such file", id="key-missing"),
        pytest.param(access(str(CA), str(CERT)), "the client certificate lacks its key", id="no-key"),
        pytest.param(access(str(CA), None, str(KEY)), "the client key lacks its certificate", id="no-certificate"),
        pytest.param(access(str(CA), str(CERT), str(TLS_DATA / "server.key")), f"the certificate file {CERT} and the key file {TLS_DATA / 'server.key'} do not match", id="mismatch"),
        pytest.param(access(str(CA), CERT.read_bytes(), b"no key"), "the certificate in the kubeconfig or its key cannot be used: ", id="key-broken"),
        pytest.param(access(str(CA), str(CERT), str(TLS_DATA / "client-encrypted.key")), f"the key file {TLS_DATA / 'client-encrypted.key'} is encrypted; use a key without a passphrase", id="encrypted"),
    ],
)  # fmt: skip
def test_unusable(wanted: Access, sentence: str) -> None:
    with pytest.raises(Unreachable) as caught:
        context_for(wanted)
    assert str(caught.value).startswith(sentence)


class TestRotation:
    def test_a_bad_file_keeps_the_old_context_with_one_warning(self, tmp_path: Path) -> None:
        warnings: list[str] = []
        contexts = TlsContexts(warnings.append)
        path = tmp_path / "ca.crt"
        shutil.copy(CA, path)
        before = contexts.context_for(access(str(path)))
        path.write_text("half written")
        for _ in range(3):
            assert contexts.context_for(access(str(path))) is before
        assert warnings == [
            f"the CA file {path} contains no PEM certificate; still using the previous files"
        ]
        shutil.copy(CA, path)
        assert contexts.context_for(access(str(path))) is before
        path.unlink()
        contexts.context_for(access(str(path)))
        assert len(warnings) == 2


# One connection, whose octets arrive in every way in which they can be cut.

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-A: 1\r\nx-a: 2\r\n\r\nabcdef"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n5;x=y\r\nbcdef\r\n0\r\nTrailer: t\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + LENGTH


class Wire(asyncio.Transport):
    """A transport that notes what is done with it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reads, self.is_over = True, False

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over


def connected() -> tuple[HttpConnection, Wire]:
    connection, wire = HttpConnection(), Wire()
    connection.connection_made(wire)
    return connection, wire


async def asked(connection: HttpConnection, *parts: bytes) -> None:
    """Ask, and let this much of the response arrive."""
    asking = asyncio.ensure_future(connection.ask(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for part in parts:
        connection.data_received(part)
    await asking


async def body(connection: HttpConnection) -> bytes:
    found = bytearray()

    def take(piece: bytes) -> bool:
        found.extend(piece)
        return True

    await connection.feed(take)
    return bytes(found)


@pytest.mark.parametrize(
    "response", [LENGTH, CHUNKED, INTERIM], ids=["length", "chunked", "interim"]
)
@given(cuts=st.lists(st.integers(0, 140), max_size=6))
def test_a_response_is_the_same_however_it_is_cut(response: bytes, cuts: list[int]) -> None:
    async def scenario() -> None:
        connection, wire = connected()
        places = [0, *sorted(cuts), len(response)]
        parts = [response[a:b] for a, b in pairwise(places)]
        await asked(connection, *filter(None, parts))
        assert (connection.status, connection.reason) == (200, "OK")
        assert await body(connection) == b"abcdef"
        assert connection.headers.get("X-a", "1") == "1"
        assert "Link" not in connection.headers
        assert connection.is_reusable
        assert wire.written == b"GET / HTTP/1.1\r\n\r\n"
        assert not wire.is_over

    asyncio.run(scenario())


async def test_a_server_that_is_not_read_is_stopped() -> None:
    connection, wire = connected()
    await asked(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n")
    half, reads = bytes(BUFFER_LEN // 2), []
    for _ in range(2):
        connection.data_received(half)
        reads.append(wire.reads)
    await connection.feed(lambda piece: len(piece) < READ_LEN)
    assert [*reads, wire.reads] == [True, False, True]


@pytest.mark.parametrize(("exc", "fault"), [(None, NoResponse), (ConnectionResetError(), Lost)])
async def test_no_response(exc: Exception | None, fault: type[Exception]) -> None:
    connection, _ = connected()
    asyncio.get_running_loop().call_soon(connection.connection_lost, exc)
    with pytest.raises(fault):
        await connection.ask(b"")
    with pytest.raises(fault):
        await connection.ask(b"")


async def test_a_head_without_end() -> None:
    connection, wire = connected()
    line = b"A: " + b"b" * 1021
    parts = [b"HTTP/1.1 200 OK", *[b"\r\n" + line] * (MAX_HEAD_LEN // 1024 + 1)]
    with pytest.raises(NotHttp, match="longer than 65536 octets"):
        await asked(connection, *parts)
    assert wire.is_over


async def test_what_was_not_asked_for_closes_the_connection() -> None:
    connection, wire = connected()
    connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert wire.is_over
    assert not connection.is_open
    with pytest.raises(NotHttp):
        await connection.ask(b"")


@pytest.mark.parametrize("start", [b"0\r\nX-T: ", b"0;x="], ids=["trailer", "chunk-extension"])
async def test_octets_that_are_no_body_are_limited(start: bytes) -> None:
    """A value of a trailer was joined without end."""
    connection, wire = connected()
    asking = asyncio.create_task(connection.ask(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asking
    for _ in range(MAX_HEAD_LEN):
        connection.data_received(b"1\r\na\r\n")  # a watch may go on for hours
    connection.data_received(start)
    for _ in range(MAX_HEAD_LEN // 1024 - 1):
        connection.data_received(b"x" * 1024)
    assert not wire.is_closing()
    connection.data_received(b"x" * 1024)
    assert wire.is_over
    assert isinstance(connection.error, NotHttp)


# Connections to a server: which are opened, and which serve again.


GET = head_of("GET /", [("Host", "x")])


@asynccontextmanager
async def served(
    answer: Callable[[str], Said] = lambda head: said(),
) -> AsyncIterator[tuple[ScriptedServer, Connections]]:
    async with ScriptedServer(answer) as server:
        found = Connections()
        yield server, found
        found.close()


async def ask(found: Connections, route: Route) -> HttpConnection:
    """A response that is read to its end, and whose connection is kept."""
    connection = await found.ask(route, GET, BUFFER_LEN)
    await body(connection)
    found.release(route, connection)
    return connection


@pytest.mark.parametrize(
    ("server", "proxy", "target", "headers"),
    [
        pytest.param("http://host:80/a", "", "", [], id="none"),
        pytest.param("https://host/a", "http://me:p%40ss@proxy:3128", "", [], id="tunnel"),
        pytest.param("http://host:80/a", "http://me:p%40ss@proxy:3128", "http://host:80", [("Proxy-Authorization", "Basic bWU6cEBzcw==")], id="plain"),
    ],
)  # fmt: skip
def test_requests_on_a_route(
    server: str, proxy: str, target: str, headers: list[tuple[str, str]]
) -> None:
    route = Route.of(Access(server, proxy=proxy), None)
    assert (route.target, route.headers) == (target, headers)


async def test_faults_of_a_proxy() -> None:
    async with served(lambda head: said("403 Not here")) as (server, found):
        context = ssl.create_default_context()
        access = Access("https://[2001:db8::1]:6443", proxy=server.url)
        with pytest.raises(ProxyRefused) as refused:
            await found.reach(Route.of(access, context))
        assert (refused.value.status, refused.value.reason) == (403, "Not here")
        assert server.requests[0].startswith("CONNECT [2001:db8::1]:6443 HTTP/1.1\r\n")
        nowhere = Access("https://192.0.2.1", proxy="http://127.0.0.1:1")
        with pytest.raises(ProxyUnreachable):
            await found.reach(Route.of(nowhere, context))


@pytest.mark.parametrize("loop", ["asyncio"])  # the lookup of uvloop's own loop can't be replaced
async def test_the_next_address_of_a_name_is_tried(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as (server, found):
        port = urlsplit(server.url).port
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")

        async def resolve(*args: object, **options: object) -> list[object]:
            return [(*stream, ("127.0.0.1", 1)), (*stream, ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        await ask(found, Route.of(Access(f"http://api.example.org:{port}"), None))
        assert server.connections == 1


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0b"])
def test_a_header_is_one_line(value: str) -> None:
    with pytest.raises(ValueError, match='the value of the header "Impersonate-User" has a line'):
        head_of("GET /", [("Impersonate-User", value)])
