"""Access by `kubeconfig FILE [CONTEXT]`.

Path: sources/api_server.py -> here -> kubeconfig_process.py, in a separate process, if a plugin must run -> Access.
Rule 1: tokens, certificates, passwords and their files are read here.  For an exec plugin or OIDC a short-lived process
        loads kubernetes_asyncio, runs it and prints the access: the package is never loaded into the server, because it
        takes 70 to 90 MB.
Rule 2: the file is read, and that process runs, at the start, when the file changes, before the credentials expire, and
        after the server has refused them; at most once every PAUSE seconds for all requests together.
Rule 3: if that fails, valid credentials stay in use, with a warning.
Rule 4: secrets appear in no argument list, no file and no message.
Source: CoreDNS 1.14.7 plugin/kubernetes/setup.go; client-go plugin/pkg/client/auth/exec.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

import hsdns
from hsdns.apiserver.access import Access, Pem, TokenFile, server_url
from hsdns.apiserver.redaction import Redaction
from hsdns.apiserver.transport import Unreachable
from hsdns.corefile.tree import did_you_mean
from hsdns.limits import restore_limit

# Parser for kubeconfig files: the cluster and the user of a context, and the files that they name.
#
# Rule 1: paths in a kubeconfig are relative to its folder.
# Rule 2: messages name the file and the entry, never a value of a user entry, which may be a secret.
# Source: Kubernetes docs, "Organizing Cluster Access Using kubeconfig Files"; client-go
#         tools/clientcmd/api/v1/types.go.


Entry = dict[str, Any]

# The keys of clusters and users whose values are paths.
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")

# The package that obtains credentials from a kubeconfig, and what to do if it is not installed.
PACKAGE: Final = "kubernetes_asyncio"
INSTALL: Final = (
    f'install it ("pip install {PACKAGE}"), or build the image with "--build-arg KUBECONFIG=yes"'
)


class KubeconfigError(ValueError):
    """An error in a kubeconfig, as a sentence for the operator."""


class Credentials(Access, omit_defaults=True):
    """What a kubeconfig gives: read from the file, or the output of kubeconfig_process.py, or why there is nothing."""

    error: str = ""
    token_file: str = ""
    remembered: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Context:
    """The cluster and the user of a context, with absolute paths."""

    name: str
    cluster: Entry = field(repr=False)
    user: Entry = field(repr=False)
    namespace: str = ""

    @property
    def missing_files(self) -> list[str]:
        """Return a sentence for each file that cannot be read."""
        found = []
        for entry in (self.cluster, self.user):
            for key in _PATHS:
                path = entry.get(key)
                # As in client-go, inline data takes precedence over the file.
                if path and not entry.get(f"{key}-data"):
                    try:
                        Path(path).open("rb").close()
                    except OSError as error:
                        found.append(f'cannot read {path} ("{key}"): {error.strerror}')
        return found


def read_context(path: str, name: str = "") -> Context:
    """Read a context, by default the current one; raise KubeconfigError."""
    content = _load(path)
    contexts = _entries(content, "contexts", "context", path)
    if not name:
        name = str(content.get("current-context") or "")
        if not name:
            raise KubeconfigError(
                f'kubeconfig {path} has no current-context; name one: "kubeconfig {path} CONTEXT"'
                f"{_listed(contexts)}"
            )
    if name not in contexts:
        raise KubeconfigError(
            f'kubeconfig {path} has no context "{name}"{did_you_mean(name, contexts)}{_listed(contexts)}'
        )
    context = contexts[name]
    clusters = _entries(content, "clusters", "cluster", path)
    users = _entries(content, "users", "user", path)
    cluster, user = str(context.get("cluster") or ""), str(context.get("user") or "")
    if cluster not in clusters:
        raise KubeconfigError(
            f'context "{name}" of kubeconfig {path} refers to cluster "{cluster}", which does not exist'
        )
    if user and user not in users:
        raise KubeconfigError(
            f'context "{name}" of kubeconfig {path} refers to user "{user}", which does not exist'
        )
    if not clusters[cluster].get("server"):
        raise KubeconfigError(f'cluster "{cluster}" of kubeconfig {path} has no server')
    folder = Path(path).absolute().parent
    return Context(
        name,
        _with_paths(clusters[cluster], folder),
        _with_paths(users.get(user, {}), folder),
        str(context.get("namespace") or ""),
    )


def file_with_context(paths: Sequence[str], name: str) -> tuple[str, str]:
    """The first of several kubeconfigs with a context, and its name: by default that which is current, as for kubectl.

    It is the first file and the name that is given if none has it; raise KubeconfigError.
    """
    contents = [(path, _load(path)) for path in paths]
    currents = (str(content.get("current-context") or "") for _, content in contents)
    name = name or next(filter(None, currents), "")
    for path, content in contents:
        if name in _entries(content, "contexts", "context", path):
            return path, name
    return paths[0], name


def _pem(entry: Entry, key: str, path: str) -> Pem | None:
    """Return the path of a certificate or key of an entry, or its PEM data."""
    if data := entry.get(f"{key}-data"):
        try:
            return Pem(pem=base64.b64decode(str(data), validate=False).decode("latin-1"))
        except binascii.Error:
            raise KubeconfigError(f'"{key}-data" in kubeconfig {path} is not base64') from None
    return Pem(entry[key]) if entry.get(key) else None


def _impersonation(user: Entry) -> tuple[tuple[str, str], ...]:
    """Return the headers for `as`, `as-uid`, `as-groups` and `as-user-extra`, which the package ignores."""
    found = [
        (header, str(user[key]))
        for key, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid"))
        if user.get(key)
    ]
    found += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        found += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return tuple(found)


def plain_credentials(context: Context, path: str) -> Credentials | None:
    """The credentials of a user who needs no plugin, None if one must run; raise KubeconfigError."""
    user = context.user
    if user.get("exec") or user.get("auth-provider"):
        return None
    found = credentials_without_token(context, path)
    token, name = str(user.get("token") or ""), user.get("username")
    if user.get("tokenFile"):  # as in client-go, it takes precedence
        found.token_file = str(user["tokenFile"])
    elif token:
        found.authorization = f"Bearer {token}"
    elif name is not None and user.get("password") is not None:
        pair = f"{name}:{user['password']}"
        found.authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return found


def credentials_without_token(context: Context, path: str) -> Credentials:
    """The credentials apart from what a plugin may make; raise KubeconfigError."""
    cluster, user = context.cluster, context.user
    return Credentials(
        server=str(cluster["server"]).rstrip("/"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
        authority=_pem(cluster, "certificate-authority", path),
        certificate=_pem(user, "client-certificate", path),
        key=_pem(user, "client-key", path),
        headers=_impersonation(user),
    )


def _load(path: str) -> Entry:
    """Read a kubeconfig, unless it is as it was."""
    return _read(path, _stamp(path))


@lru_cache(maxsize=4)
def _read(path: str, stamp: tuple[int, ...]) -> Entry:
    import yaml  # noqa: PLC0415 - a cluster's own access reads no YAML

    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise KubeconfigError(
            f"cannot read kubeconfig {path}: {error.strerror}; correct the path or its permissions"
        ) from None
    except UnicodeDecodeError:
        raise KubeconfigError(f"kubeconfig {path} is not valid UTF-8") from None
    try:
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        # PyYAML's own message quotes the line, which may contain a token.
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise KubeconfigError(f"kubeconfig {path}{where} is not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise KubeconfigError(f"kubeconfig {path} is not YAML ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise KubeconfigError(f"kubeconfig {path} is not a kubeconfig: it has no contexts")
    return content


def _entries(content: Entry, plural: str, singular: str, path: str) -> dict[str, Entry]:
    """Index a list of named entries; two with one name are refused, as by client-go."""
    listed = content.get(plural) or []
    found: dict[str, Entry] = {}
    for item in listed if isinstance(listed, list) else [None]:
        inner = (item.get(singular) or {}) if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(inner, dict):
            raise KubeconfigError(f'"{plural}" of kubeconfig {path} is malformed')
        name = str(item.get("name"))
        if name in found:
            raise KubeconfigError(
                f'kubeconfig {path} has two {plural} named "{name}"; rename or remove one of them'
            )
        found[name] = inner
    return found


def _with_paths(entry: Entry, folder: Path) -> Entry:
    found = dict(entry)
    for key in _PATHS:
        if found.get(key):
            found[key] = str(folder / str(found[key]))
    plugin = found.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        found["exec"] = plugin | {"command": str(folder / str(plugin["command"]))}
    return found


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    shown = ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
    return f" (it has: {shown})" if shown else " (it has none)"


TIMEOUT: Final = 60.0  # seconds for the process, including an exec plugin
MARGIN: Final = 60.0  # seconds before expiry at which credentials are renewed
PAUSE: Final = 5.0  # seconds between two runs
# Not -m: a new interpreter may not find the package, and PYTHONPATH would be passed on to the exec plugin.
_BOOTSTRAP: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hsdns.apiserver.kubeconfig_process import main; sys.exit(main())"
)
COMMAND: Final = (sys.executable, "-c", _BOOTSTRAP, str(Path(hsdns.__file__).parent.parent))


@dataclass(eq=False)
class Kubeconfig:
    """Access by a kubeconfig; `now` is a monotonic clock, `wall` the Unix time, both in seconds.

    Raises ValueError if a plugin must run and the package that runs it is not installed: that cannot change while the
    server runs.
    """

    path: str
    context: str
    now: Callable[[], float]
    wall: Callable[[], float]
    warn: Callable[[str], None]
    _: KW_ONLY
    command: Sequence[str] = COMMAND
    timeout: float = TIMEOUT
    runs_code: bool = True

    def __post_init__(self) -> None:
        is_there = not self.runs_code or importlib.util.find_spec(PACKAGE) is not None
        if not is_there and _needs_plugin(self.path, self.context):
            raise ValueError(f'"kubeconfig" needs the Python package {PACKAGE}; {INSTALL}')
        self.server = f"the API server of kubeconfig {self.path}"
        self._arguments = [os.path.abspath(self.path), *filter(None, [self.context])]
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
        """Return a sentence for each missing part."""
        try:
            return read_context(self.path, self.context).missing_files
        except KubeconfigError as error:
            return [str(error)]

    async def current(self) -> Access:
        """Return the current access; run the process if necessary; raise Unreachable."""
        async with self._lock:
            if self._is_due():
                await self._renew()
            access = self._access
            if access is None:
                raise Unreachable(self._failure)
            if self._token is not None:
                access = structs.replace(access, authorization=self._token.authorization())
            elif self._failure and self._has_expired():
                raise Unreachable(self._failure)
            return access

    def invalidate(self, access: Access) -> None:
        """Renew the credentials before the next use if `access` is still the current one."""
        if self._token is not None:
            self._token.invalidate()
        elif self._access is not None and access == self._access:
            self._refused = True

    def _is_due(self) -> bool:
        if self._ran_at is None or self._stamp != _stamp(self.path):
            return True
        if self.now() - self._ran_at < PAUSE:
            return False
        return self._access is None or self._refused or self._has_expired(MARGIN)

    def _has_expired(self, margin: float = 0.0) -> bool:
        expiry = self._access.expiry if self._access is not None else None
        return expiry is not None and self.wall() >= expiry - margin

    async def _renew(self) -> None:
        """Read the file, or have the process do it; store the access, or the error message."""
        stamp = _stamp(self.path)
        if stamp != self._stamp:
            self._remembered = {}  # the file may now belong to another user
        try:
            found = await asyncio.to_thread(self._read) or await self._run()
            access = _access(found, self.path)
        except ValueError as error:
            self._failure = str(error)
            if self._access is not None and not self._has_expired():
                self._warn_once(f"{error}; still using the previous credentials")
        else:
            self._access, self._failure, self._refused = access, "", False
            self.server = access.server
            self._remembered = found.remembered
            self._token = None
            if found.token_file:
                self._token = TokenFile(found.token_file, self.now, self.warn)
            for sentence in found.warnings:
                self._warn_once(sentence)
            self._warned = set(found.warnings)
        finally:
            self._stamp, self._ran_at = stamp, self.now()

    def _read(self) -> Credentials | None:
        """Read credentials that need no plugin; None if one must run; raise KubeconfigError."""
        return plain_credentials(read_context(self.path, self.context), self.path)

    async def _run(self) -> Credentials:
        """Run the process once; raise ValueError."""
        if not self.runs_code:
            raise ValueError(
                f"kubeconfig {self.path} needs an exec plugin or OIDC, which --no-code does not run; "
                "use one with a token or a certificate"
            )
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # to kill an exec plugin along with it
            )
        except OSError as error:
            raise ValueError(
                f"cannot start {self.command[0]} to read kubeconfig {self.path}: {error.strerror}"
            ) from None
        restore_limit(process.pid)  # in time: it starts nothing before it has read its input
        try:
            async with asyncio.timeout(self.timeout):
                output, errors = await process.communicate(msgspec.json.encode(self._remembered))
        except TimeoutError:
            raise ValueError(
                f"kubeconfig {self.path} gave no credentials within {self.timeout:g} s; "
                "does its exec plugin wait for input?"
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        try:
            found = msgspec.json.decode(output, type=Credentials)
        except msgspec.DecodeError:
            said = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
            last = Redaction(self._remembered.values())(said)[:400]
            raise ValueError(
                f"the process that reads kubeconfig {self.path} ended with status "
                f"{process.returncode}: {last or 'no output'}"
            ) from None
        if found.error:
            raise ValueError(found.error)
        return found

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self.warn(sentence)


def _needs_plugin(path: str, context: str) -> bool:
    """Whether a plugin must run; False if the file cannot be read, which current() reports."""
    try:
        return plain_credentials(read_context(path, context), path) is None
    except KubeconfigError:
        return False


def _access(found: Credentials, path: str) -> Access:
    """Make an Access; raise ValueError."""
    secure = any((found.authority, found.certificate, found.insecure))
    try:
        server = server_url(found.server, secure=secure)
    except ValueError as error:
        raise ValueError(f'"server" of kubeconfig {path}: {error}') from None
    if found.proxy and not found.proxy.startswith(("http://", "https://")):
        scheme = found.proxy.partition(":")[0]
        raise ValueError(
            f'proxy-url of kubeconfig {path} is "{scheme}"; only http and https are supported'
        )
    if not all(" " <= character <= "~" for character in found.authorization):
        raise ValueError(f"the token of kubeconfig {path} is not one word of ASCII")
    return Access(server, *structs.astuple(found)[1 : len(Access.__struct_fields__)])


def _stamp(path: str) -> tuple[int, ...]:
    """Return a value that changes when the file changes."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
