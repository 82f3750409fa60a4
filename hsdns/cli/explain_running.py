"""Lets the running server explain a question.

Path: cli/explain.py -> here -> /v1/explain of a control door.
Rule: a server without the page, or with other explanations, is reported with a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from hsdns.cli.output import complain
from hsdns.cli.running_server import NoSuchPage, RunningServer, ServerError
from hsdns.explanation.report import VERSION, Explanation


def explain_running(server: RunningServer, parameters: Mapping[str, str]) -> Explanation:
    """Let a server explain a question or a lookup, given as parameters of its page; raise ServerError."""
    complain(f"explained by the server with process ID {server.pid}, at {server.path}")
    try:
        found = server.get(f"/v1/explain?{urlencode(parameters)}")
    except NoSuchPage:
        raise ServerError(
            f"the server at {server.path} is hsdns {server.version}, which cannot explain; "
            "start this hsdns in its place, or read a source with -source or -conf"
        ) from None
    try:
        if found.get("version") != VERSION:
            raise ValueError
        return msgspec.convert(found, Explanation)
    except ValueError:  # also raised by msgspec
        raise ServerError(
            f"the server at {server.path} is hsdns {server.version}, whose explanations are of another form; "
            "use the hsdns of the server"
        ) from None
