"""Why the server, or a configuration of it, does not start.

Path: lifecycle.py catches the expected errors, cli/launch.py prints the sentence.
"""

from __future__ import annotations

from typing import Final

from hsdns.corefile.tree import CorefileError
from hsdns.server.http import HttpError
from hsdns.server.sockets import ListenError

# Their message is a sentence for the operator; any other exception is a fault of the server, logged with its stack.
START_FAILURES: Final = (CorefileError, ListenError, HttpError, OSError)


class StartError(Exception):
    """A sentence for the operator: why the server did not start."""
