"""Parser for kubeconfig files: the cluster and the user of a context, and the files that they name.

Path: kubeconfig.py checks for missing parts and reads what needs no plugin; kubeconfig_process.py reads the rest.
Rule 1: paths in a kubeconfig are relative to its folder.
Rule 2: messages name the file and the entry, never a value of a user entry, which may be a secret.
Source: Kubernetes docs, "Organizing Cluster Access Using kubeconfig Files"; client-go tools/clientcmd/api/v1/types.go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hsdns.corefile.tree import did_you_mean

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


@dataclass(frozen=True, slots=True)
class Context:
    """The cluster and the user of a context, with absolute paths."""

    name: str
    cluster: Entry = field(repr=False)
    user: Entry = field(repr=False)

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
        name, _with_paths(clusters[cluster], folder), _with_paths(users.get(user, {}), folder)
    )


def pem(entry: Entry, key: str, path: str) -> Entry | None:
    """Return the path of a certificate or key of an entry, or its PEM data."""
    if data := entry.get(f"{key}-data"):
        try:
            return {"pem": base64.b64decode(str(data), validate=False).decode("latin-1")}
        except binascii.Error:
            raise KubeconfigError(f'"{key}-data" in kubeconfig {path} is not base64') from None
    return {"path": entry[key]} if entry.get(key) else None


def impersonation(user: Entry) -> list[tuple[str, str]]:
    """Return the headers for `as`, `as-uid`, `as-groups` and `as-user-extra`, which the package ignores."""
    found = [
        (header, str(user[key]))
        for key, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid"))
        if user.get(key)
    ]
    found += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        found += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return found


def plain_access(context: Context, path: str) -> Entry | None:
    """The access of a user who needs no plugin, as kubeconfig_process.py prints it; None if one must run.

    Raises KubeconfigError.
    """
    cluster, user = context.cluster, context.user
    if user.get("exec") or user.get("auth-provider"):
        return None
    token, name = str(user.get("token") or ""), user.get("username")
    authorization = ""
    if user.get("tokenFile"):
        pass  # as in client-go, it takes precedence
    elif token:
        authorization = f"Bearer {token}"
    elif name is not None and user.get("password") is not None:
        pair = f"{name}:{user['password']}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return {
        "server": str(cluster["server"]).rstrip("/"),
        "insecure": bool(cluster.get("insecure-skip-tls-verify")),
        "tls_server_name": str(cluster.get("tls-server-name") or ""),
        "proxy": str(cluster.get("proxy-url") or ""),
        "authority": pem(cluster, "certificate-authority", path),
        "certificate": pem(user, "client-certificate", path),
        "key": pem(user, "client-key", path),
        "headers": impersonation(user),
        "authorization": authorization,
        "token_file": str(user.get("tokenFile") or ""),
    }


def _load(path: str) -> Entry:
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
