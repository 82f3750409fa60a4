"""TLS contexts for connections to the API server: trusted CAs and client certificate.

Path: client.py asks for the context of an Access before each request.
Rule 1: TLS 1.2 or later, a valid certificate and a matching name are required; only `insecure` turns that off.
Rule 2: VERIFY_X509_STRICT, the default since Python 3.13, is off: the CAs of many clusters lack the key identifiers
        that it requires.  As in Go, every certificate in the CA file is a trust anchor.
Rule 3: files are read and compared each time; a change makes a new context.  If the new content is invalid, a warning
        is logged and the previous context is kept.
Rule 4: OpenSSL gets a private key through anonymous memory or, where the system has none, through a file with mode 0600
        that is deleted at once.
Source: client-go transport/transport.go (TLSConfigFor); Kubernetes docs, "PKI certificates and requirements".
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hsdns.apiserver.access import Access, Pem
from hsdns.apiserver.transport import Unreachable

_CERTIFICATES: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)


class _TlsError(ValueError):
    """An error in the TLS files, as a sentence for the operator."""


class _Material(NamedTuple):
    """The inputs of a context."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None
    insecure: bool


class TlsContexts:
    """Makes the context of the current access, and a new one when its files change."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._warned = ""
        self._access: Access | None = None
        self._material: _Material | None = None
        self._context: ssl.SSLContext | None = None

    def context_for(self, access: Access) -> ssl.SSLContext:
        """Return the context, the same one until something changes; raise Unreachable."""
        try:
            material = _Material(
                _read(access.authority, "CA"),
                _read(access.certificate, "certificate"),
                _read(access.key, "key"),
                access.insecure,
            )
            if self._context is None or material != self._material:
                self._context = _make(access, material)
                self._material, self._access = material, access
            self._warned = ""
        except _TlsError as error:
            # The previous context is kept only for the same access.
            if self._context is None or _named(access) != _named(self._access):
                raise Unreachable(str(error)) from None
            if str(error) != self._warned:
                self._warned = str(error)
                self._warn(f"{error}; still using the previous files")
        return self._context


def _named(access: Access | None) -> tuple[Pem | bool | None, ...]:
    if access is None:
        return ()
    return (access.authority, access.certificate, access.key, access.insecure)


def _read(pem: Pem | None, what: str) -> bytes | None:
    """Read the PEM file, or return the PEM data; raise _TlsError."""
    if not isinstance(pem, str):
        return pem
    try:
        return Path(pem).read_bytes()
    except OSError as error:
        raise _TlsError(f"cannot read the {what} file {pem}: {error.strerror}") from None


def _make(access: Access, material: _Material) -> ssl.SSLContext:
    """Make a context; raise _TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the certificate and its name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags = _flags(context.verify_flags)
    if material.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif material.authority is None:
        context.load_default_certs()
    else:
        _trust(context, material.authority, _origin(access.authority, "CA"))
    if material.certificate is not None and material.key is not None:
        _load_client_certificate(context, material.certificate, material.key, access)
    elif material.certificate is not None or material.key is not None:
        given, missing = ("certificate", "key") if material.certificate else ("key", "certificate")
        raise _TlsError(f"the client {given} lacks its {missing}")
    return context


def _flags(flags: ssl.VerifyFlags) -> ssl.VerifyFlags:
    return (flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT


def _origin(pem: Pem | None, what: str) -> str:
    return f"the {what} file {pem}" if isinstance(pem, str) else f"the {what} in the kubeconfig"


def _trust(context: ssl.SSLContext, authority: bytes, origin: str) -> None:
    # Certificates only, because OpenSSL fails on comments that are not ASCII.
    found = b"\n".join(_CERTIFICATES.findall(authority))
    if not found:
        raise _TlsError(f"{origin} contains no PEM certificate")
    try:
        context.load_verify_locations(cadata=found.decode("ascii"))
    except ssl.SSLError as error:
        raise _TlsError(f"{origin} contains an invalid certificate: {error.reason}") from None


def _load_client_certificate(
    context: ssl.SSLContext, certificate: bytes, key: bytes, access: Access
) -> None:
    origin = _origin(access.certificate, "certificate")
    try:
        with _as_file(certificate + b"\n" + key) as path:
            context.load_cert_chain(path, password=_refuse)
    except _TlsError as error:
        raise _TlsError(f"{_origin(access.key, 'key')} {error}") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _TlsError(f"{origin} and {_origin(access.key, 'key')} do not match") from None
        raise _TlsError(
            f"{origin} or its key cannot be used: {error.reason or 'not in PEM form'}"
        ) from None


def _refuse() -> str:
    """Raise instead of letting OpenSSL prompt for a passphrase."""
    raise _TlsError("is encrypted; use a key without a passphrase")


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Provide bytes as a file with a path, within the context."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        handle = os.memfd_create("hsdns-tls", os.MFD_CLOEXEC)
        path, is_on_disk = f"/proc/self/fd/{handle}", False
    else:
        import tempfile  # noqa: PLC0415 - only for systems without anonymous files

        handle, path = tempfile.mkstemp(prefix="hsdns-tls-")  # mode 0600
        is_on_disk = True
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if is_on_disk:
            os.unlink(path)
