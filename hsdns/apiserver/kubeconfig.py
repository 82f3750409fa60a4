"""The API server by `kubeconfig FILE [CONTEXT]`.

Path: sources/api_server.py -> here -> kubeconfig_process.py, in a process of its own -> Access.
Rule 1: the library for kubeconfigs is never loaded into the server: it takes 70 to 90 MB.  A process that lives for a
        second loads it and prints what it found.
Rule 2: that process runs at the start, when the file changes, before the credentials end, and after the server has
        refused them; not more often than every PAUSE seconds, however many requests wait for it.
Rule 3: where it fails, credentials that have not ended stay in use, with a warning.
Rule 4: secrets are in no argument list, no file and no sentence.
Source: CoreDNS 1.14.7 plugin/kubernetes/setup.go; client-go plugin/pkg/client/auth/exec.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

import hsdns
from hsdns.apiserver.access import Access, Pem, server_url
from hsdns.apiserver.kubeconfig_file import BadKubeconfig, read_context
from hsdns.apiserver.token_file import TokenFile
from hsdns.apiserver.transport import Unreachable

TIMEOUT: Final = 60.0  # seconds for the process, exec plugin included
MARGIN: Final = 60.0  # seconds before their end at which credentials are renewed
PAUSE: Final = 5.0  # seconds between two runs
_PACKAGE: Final = "kubernetes_asyncio"
# Not -m: the package need not be on the path of a new interpreter, and PYTHONPATH would reach the exec plugin.
_BOOTSTRAP: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hsdns.apiserver.kubeconfig_process import main; sys.exit(main())"
)
COMMAND: Final = (sys.executable, "-c", _BOOTSTRAP, str(Path(hsdns.__file__).parent.parent))


class _File(msgspec.Struct, frozen=True):
    """A path, or the PEM itself (as Latin-1, whatever it is)."""

    path: str = ""
    pem: str = ""

    def read(self) -> Pem:
        return self.path or self.pem.encode("latin-1")


class _Found(msgspec.Struct, frozen=True):
    """What the process prints."""

    error: str = ""
    server: str = ""
    authority: _File | None = None
    certificate: _File | None = None
    key: _File | None = None
    authorization: str = ""
    token_file: str = ""
    headers: list[tuple[str, str]] = []
    tls_server_name: str = ""
    insecure: bool = False
    proxy: str = ""
    expiry: float | None = None
    remembered: dict[str, str] = {}
    warnings: list[str] = []


class Kubeconfig:
    """Access by a kubeconfig; `now` is a monotonic clock, `wall` counts from 1970, both in seconds."""

    def __init__(
        self,
        path: str,
        context: str,
        now: Callable[[], float],
        wall: Callable[[], float],
        warn: Callable[[str], None],
        *,
        command: Sequence[str] = COMMAND,
        timeout: float = TIMEOUT,
    ) -> None:
        self.server = f"the API server of kubeconfig {path}"
        self._path, self._context = path, context
        self._now, self._wall, self._warn = now, wall, warn
        self._command, self._timeout = command, timeout
        self._arguments = [os.path.abspath(path), *filter(None, [context])]
        self._lock = asyncio.Lock()
        self._access: Access | None = None
        self._token: TokenFile | None = None
        self._remembered: dict[str, str] = {}
        self._stamp: tuple[int, ...] = ()
        self._refused = False
        self._ran_at: float | None = None
        self._failure = ""
        self._warned: set[str] = set()

    def check(self) -> list[str]:
        """Sentences about what is missing."""
        found = []
        try:
            found += read_context(self._path, self._context).missing_files
        except BadKubeconfig as error:
            found.append(str(error))
        if importlib.util.find_spec(_PACKAGE) is None:
            found.append(
                f'"kubeconfig" needs the Python package {_PACKAGE}; '
                f'install it ("pip install {_PACKAGE}")'
            )
        return found

    async def current(self) -> Access:
        """The access as it is now; runs the process where it must.  Raise Unreachable."""
        async with self._lock:
            if self._is_due():
                await self._renew()
            access = self._access
            if access is None:
                raise Unreachable(self._failure)
            if self._token is not None:
                access = replace(access, authorization=self._token.authorization())
            elif self._failure and self._has_ended():
                raise Unreachable(self._failure)
            return access

    def forget(self, access: Access) -> None:
        """Renew the credentials before the next use, if these are still the ones."""
        if self._token is not None:
            self._token.forget()
        elif self._access is not None and access == self._access:
            self._refused = True

    def _is_due(self) -> bool:
        if self._ran_at is None or self._stamp != _stamp(self._path):
            return True
        if self._now() - self._ran_at < PAUSE:
            return False
        return self._access is None or self._refused or self._has_ended(MARGIN)

    def _has_ended(self, margin: float = 0.0) -> bool:
        expiry = self._access.expiry if self._access is not None else None
        return expiry is not None and self._wall() >= expiry - margin

    async def _renew(self) -> None:
        """Run the process; what it found is used from now on, a failure is kept as a sentence."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._remembered = {}  # the file may belong to somebody else now
        try:
            found = await self._run()
            access = _access(found, self._path)
        except ValueError as error:
            self._failure = str(error)
            if self._access is not None and not self._has_ended():
                self._warn_once(f"{error}; going on with the credentials from before")
        else:
            self._access, self._failure, self._refused = access, "", False
            self.server = access.server
            self._remembered = found.remembered
            self._token = None
            if found.token_file:
                self._token = TokenFile(found.token_file, self._now, self._warn)
            for sentence in found.warnings:
                self._warn_once(sentence)
            self._warned = set(found.warnings)
        finally:
            self._stamp, self._ran_at = stamp, self._now()

    async def _run(self) -> _Found:
        """Run the process once; raise ValueError with a sentence."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that an exec plugin can be ended with it
            )
        except OSError as error:
            raise ValueError(
                f"cannot start {self._command[0]} to read kubeconfig {self._path}: {error.strerror}"
            ) from None
        try:
            async with asyncio.timeout(self._timeout):
                output, errors = await process.communicate(msgspec.json.encode(self._remembered))
        except TimeoutError:
            raise ValueError(
                f"kubeconfig {self._path} gave no credentials within {self._timeout:g} s; "
                "does its exec plugin wait for input?"
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        try:
            found = msgspec.json.decode(output, type=_Found)
        except msgspec.DecodeError:
            last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2][:400]
            raise ValueError(
                f"the process that reads kubeconfig {self._path} ended with status "
                f"{process.returncode}: {last or 'no output'}"
            ) from None
        if found.error:
            raise ValueError(found.error)
        return found

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)


def _access(found: _Found, path: str) -> Access:
    """Turn what the process printed into an access; raise ValueError."""
    secure = any((found.authority, found.certificate, found.insecure))
    try:
        server = server_url(found.server, secure=secure)
    except ValueError as error:
        raise ValueError(f'"server" of kubeconfig {path}: {error}') from None
    if found.proxy and not found.proxy.startswith(("http://", "https://")):
        scheme = found.proxy.partition(":")[0]
        raise ValueError(
            f'proxy-url of kubeconfig {path} is "{scheme}"; only http and https can be used'
        )
    if not all(" " <= character <= "~" for character in found.authorization):
        raise ValueError(f"the token of kubeconfig {path} is not one word of ASCII")
    return Access(
        server,
        authority=found.authority.read() if found.authority else None,
        certificate=found.certificate.read() if found.certificate else None,
        key=found.key.read() if found.key else None,
        authorization=found.authorization,
        headers=tuple(found.headers),
        tls_server_name=found.tls_server_name,
        insecure=found.insecure,
        proxy=found.proxy,
        expiry=found.expiry,
    )


def _stamp(path: str) -> tuple[int, ...]:
    """Tell one state of a file from another."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
