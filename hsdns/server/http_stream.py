"""Sends a page in pieces over HTTP.

Path: http.py calls it for an HttpStream; the modules in control/ generate the pieces.
Rule 1: the next piece is generated when the kernel has accepted the previous one, so a reader that reads nothing costs
        one piece; http.py closes its connection after the timeout.
Rule 2: the first piece is generated before the status is sent.  A later error closes the connection without the last
        chunk, so that no reader takes a part for the whole.
Rule 3: errors are JSON, `{"error": SENTENCE}`.
Rule 4: the body of a request must arrive within the timeout of http.py.
Rule 5: after a wrong token the next ones of that client wait (AccessToken in http_page.py).
Rule 6: requests that a browser sends for pages of other sites are refused before anything is generated
        (http_browser.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from hsdns.http_page import Asked, HttpRefusal, HttpStream
from hsdns.server.http_browser import HEADERS, fault_of
from hsdns.server.sent_away import client_of

if TYPE_CHECKING:
    from aiohttp import web

JSON: Final = "application/json"
MAX_BODY: Final = 65_536  # octets
NO_TOKEN: Final = (
    "this address needs the header Authorization: Bearer TOKEN, with the token that the server was given; "
    "commands of hsdns take it from HSDNS_CONTROL_TOKEN"
)
_log = logging.getLogger("hsdns.server.http")


async def send(
    page: HttpStream, request: web.BaseRequest, body_timeout: float
) -> web.StreamResponse:
    """Answer a request, whose body must arrive within `body_timeout` seconds."""
    from aiohttp import web  # noqa: PLC0415 - Rule 5 of http.py

    authorization = request.headers.get("Authorization", "")
    is_allowed = await _is_allowed(page, authorization, request.remote or "")
    any_host = page.any_host or (page.token is not None and is_allowed)
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    if sentence := fault_of(host, origin, any_host=any_host):
        return refusal(403, sentence)
    if not is_allowed:
        return refusal(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
    methods = page.methods + (("HEAD",) if "GET" in page.methods else ())
    if request.method not in methods:
        sentence = f"{request.path} has no {request.method}; it has {', '.join(page.methods)}"
        return refusal(405, sentence, {"Allow": ", ".join(methods)})
    try:
        parameters = _parameters(page, request)
        async with asyncio.timeout(body_timeout):
            asked = Asked(request.method, parameters, await _body(request))
    except TimeoutError:
        return refusal(408, f"the body of the request has not arrived after {body_timeout:g} s")
    except HttpRefusal as error:
        return refusal(error.status, str(error))
    async with aclosing(page.pieces(asked)) as pieces:
        try:
            first = await anext(pieces, b"")
        except HttpRefusal as error:
            return refusal(error.status, str(error))
        except Exception:
            _log.exception("http: the page %s could not be made", request.path)
            return refusal(500, "the server failed to answer; its log says why")
        response = web.StreamResponse(
            headers={**HEADERS, **page.headers, "Content-Type": page.content_type}
        )
        await response.prepare(request)
        if request.method != "HEAD":
            await response.write(first)
            async for piece in pieces:
                await response.write(piece)
    await response.write_eof()
    return response


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> web.Response:
    """The response to a refused request."""
    from aiohttp import web  # noqa: PLC0415 - Rule 5 of http.py

    text = json.dumps({"error": sentence}) + "\n"
    return web.Response(
        status=status, text=text, content_type=JSON, headers={**HEADERS, **(headers or {})}
    )


def _parameters(page: HttpStream, request: web.BaseRequest) -> dict[str, str]:
    found = dict(request.query)
    for name in found:
        if name not in page.parameters:
            which = ", ".join(page.parameters)
            its = f"it has {which}" if which else f"leave out ?{request.query_string}"
            raise HttpRefusal(400, f"{request.path} has no parameter {name}; {its}")
        if len(request.query.getall(name)) > 1:
            raise HttpRefusal(400, f"{request.path} takes {name} once")
    return found


async def _body(request: web.BaseRequest) -> bytes:
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise HttpRefusal(413, f"{request.path} takes at most {MAX_BODY} octets")
    return bytes(body)


async def _is_allowed(page: HttpStream, authorization: str, address: str) -> bool:
    if page.token is None:
        return True
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return False  # nothing is guessed
    client = client_of(address)
    clock = asyncio.get_running_loop().time
    if pause := page.token.pause(client, clock()):
        await asyncio.sleep(pause)
    return page.token.is_text(token.strip(), client, clock())
