"""Certificates for servers that speak TLS, made for one test."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """A self-made certificate and its key."""

    cert: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """The context of a server that shows it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context


def make_certificate(folder: Path, name: str) -> Certificate:
    """Make a certificate for a name with the openssl command, which every Python with ssl comes beside."""
    found = Certificate(folder / "cert.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", f"subjectAltName=DNS:{name}"),
            *("-keyout", str(found.key), "-out", str(found.cert)),
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return found
