"""Reader of the web configuration file, which configures TLS for /metrics.

Path: plugins/prometheus, for `tls FILE`.
Source: prometheus/exporter-toolkit, which CoreDNS 1.14.7 uses for the file.
Rule 1: an unknown option is an error, because it may be one that restricts access.
Rule 2: YAML is imported only if there is such a file, because that takes 10 ms.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hsdns.corefile.tree import Token

TlsContext = ssl.SSLContext
CLIENT_AUTH: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
KNOWN: Final = (
    "cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version",
)  # fmt: skip


class _Error(Exception):
    """An error in the web configuration file."""


def read_web_config(token: Token, path: str) -> TlsContext | None:
    """Return the SSL context that a file describes, None if it does not configure TLS; raise CorefileError."""
    import yaml  # noqa: PLC0415 - Rule 2

    try:
        return _context(yaml.safe_load(Path(path).read_text()), Path(path).parent)
    except (_Error, yaml.YAMLError, OSError, ValueError) as error:
        reason = str(error).replace("\n", " ")
        if isinstance(error, OSError):
            reason = f"{error.filename or path}: {error.strerror or error}"
        raise token.error(f'cannot use "{token.text}" for TLS: {reason}') from error


def _context(content: object, folder: Path) -> TlsContext | None:
    sections = _mapping(content or {}, "the file")
    for name in sections:
        if name != "tls_server_config":
            raise _Error(
                f'"{name}" is not known to hsdns, which has "tls_server_config"; remove it'
            )
    wanted = _mapping(sections.get("tls_server_config") or {}, "tls_server_config")
    if not wanted:
        return None
    for name in wanted:
        if name not in KNOWN:
            raise _Error(f'"{name}" is not known to hsdns, which has {", ".join(KNOWN)}; remove it')
    for name in ("cert_file", "key_file"):
        if not wanted.get(name):
            raise _Error(f'"{name}" is missing')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.minimum_version = _one_of(VERSIONS, wanted, "min_version", "TLS12")
    context.maximum_version = _one_of(VERSIONS, wanted, "max_version", "TLS13")
    context.load_cert_chain(
        folder / str(wanted["cert_file"]), folder / str(wanted["key_file"]), lambda: b""
    )
    authority = wanted.get("client_ca_file")
    if authority:
        context.load_verify_locations(cafile=folder / str(authority))
    context.verify_mode = _one_of(CLIENT_AUTH, wanted, "client_auth_type", "NoClientCert")
    if context.verify_mode != ssl.CERT_NONE and not authority:
        raise _Error('"client_auth_type" requires "client_ca_file"; add it')
    return context


def _mapping(found: object, what: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise _Error(f"{what} is not a mapping")
    return found


def _one_of(known: Mapping[str, Any], wanted: Mapping[str, Any], name: str, default: str) -> Any:
    value = wanted.get(name, default)
    if value not in known:
        raise _Error(f'"{name}: {value}" is not one of: {", ".join(known)}')
    return known[value]
