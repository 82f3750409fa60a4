"""TLS as a client, of an API server or an upstream.

Path: apiserver/client.py and upstream/target.py make contexts of this class.
"""

from __future__ import annotations

import ssl
from typing import Any


class ClientContext(ssl.SSLContext):
    """Encodes a name in ASCII itself: ssl imports a codec for all scripts first, half a megabyte."""

    def wrap_bio(self, *ends: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection to the server that `server_hostname` names."""
        name = options.get("server_hostname")
        if isinstance(name, str) and name.isascii():
            options["server_hostname"] = name.encode()
        return super().wrap_bio(*ends, **options)
