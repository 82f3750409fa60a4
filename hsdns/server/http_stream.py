"""Send a page in pieces over HTTP.

Path: http.py calls it for an HttpStream; what makes the pieces is in control/.
Rule 1: the next piece is made when the kernel has taken the one before, so a reader that takes nothing costs one piece;
        http.py cuts it off after its time limit.
Rule 2: the first piece is made before the status is sent.  What fails later ends the connection without the last chunk,
        so that no reader takes a part for the whole.
Rule 3: errors are JSON, `{"error": SENTENCE}`.
"""

from __future__ import annotations

import hmac
import json
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from hsdns.http_page import HttpRefusal, HttpStream

if TYPE_CHECKING:
    from aiohttp import web

JSON = "application/json"
NO_TOKEN = "this address needs the header Authorization: Bearer TOKEN, with the token of its file"
_log = logging.getLogger("hsdns.server.http")


async def send(page: HttpStream, request: web.BaseRequest) -> web.StreamResponse:
    """Answer a request."""
    from aiohttp import web  # noqa: PLC0415 - Rule 5 of http.py

    if not _is_allowed(page, request.headers.get("Authorization", "")):
        return refusal(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
    async with aclosing(page.pieces(request.query_string)) as pieces:
        try:
            first = await anext(pieces, b"")
        except HttpRefusal as error:
            return refusal(error.status, str(error))
        except Exception:
            _log.exception("http: the page %s could not be made", request.path)
            return refusal(500, "the server failed to answer; its log says why")
        response = web.StreamResponse(headers={"Content-Type": page.content_type})
        await response.prepare(request)
        if request.method != "HEAD":
            await response.write(first)
            async for piece in pieces:
                await response.write(piece)
    await response.write_eof()
    return response


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> web.Response:
    """The answer to a request that is not answered."""
    from aiohttp import web  # noqa: PLC0415 - Rule 5 of http.py

    text = json.dumps({"error": sentence}) + "\n"
    return web.Response(status=status, text=text, content_type=JSON, headers=headers)


def _is_allowed(page: HttpStream, authorization: str) -> bool:
    if page.token is None:
        return True
    scheme, _, token = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        token.strip().encode(), page.token.encode()
    )
