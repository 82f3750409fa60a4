"""Process that obtains credentials from a kubeconfig with kubernetes_asyncio.

Path: kubeconfig.py starts it with FILE CONTEXT as arguments and reads one JSON object from its output.
Rule 1: kubernetes_asyncio handles tokens, exec plugins and OIDC.  Its configuration part is loaded alone if possible:
        the models of the API would take seconds and 70 to 90 MB.
Rule 2: certificates and paths are passed on unchanged, so that kubernetes_asyncio writes no files.  For an exec plugin
        that returns a certificate it needs a folder: one in memory if possible.
Rule 3: secrets enter through stdin and leave through stdout in separate fields only; errors of the package may quote a
        plugin's output, so secrets are removed from them.
Source: kubernetes_asyncio config/kube_config.py; Kubernetes docs, "Client authentication" (v1).
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import logging
import os
import shutil
import ssl
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import msgspec

from hsdns.apiserver.access import Pem
from hsdns.apiserver.kubeconfig import (
    INSTALL,
    PACKAGE,
    Context,
    Credentials,
    Entry,
    KubeconfigError,
    credentials_without_token,
    read_context,
)
from hsdns.apiserver.redaction import Redaction

_REMEMBERED: Final = ("id-token", "refresh-token")
_PROVIDERS: Final = ("gcp", "oidc")


def main() -> int:
    """Print the access for FILE and CONTEXT of argv as JSON, or {"error": SENTENCE}; return the exit status."""
    logging.disable(logging.CRITICAL)  # the package logs the exceptions that it raises
    path, name = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    try:
        remembered = json.loads(sys.stdin.read().strip() or "{}")
        found = asyncio.run(_find(path, name, remembered))
    except KubeconfigError as error:
        found = Credentials(error=str(error))
    sys.stdout.write(msgspec.json.encode(found).decode())
    return 1 if found.error else 0


async def _find(path: str, name: str, remembered: Entry) -> Credentials:
    """Return the credentials; raise KubeconfigError."""
    context = read_context(path, name)
    user = context.user
    found = credentials_without_token(context, path)
    asked: Entry = {
        key: user[key] for key in ("token", "username", "password", "exec") if key in user
    }
    if user.get("tokenFile") and "exec" not in user:
        asked.pop("token", None)  # as in client-go, tokenFile takes precedence
        found.token_file = user["tokenFile"]
    provider = _provider(user, remembered, path)
    if provider:
        asked["auth-provider"] = provider
    if (user.get("exec") or {}).get("provideClusterInfo"):
        found.warnings.append(
            f'kubeconfig {path} sets provideClusterInfo, which hsdns does not send to "exec" plugins'
        )
    await _ask_package(context, asked, path, found)
    if provider.get("name") == "oidc":
        config = provider["config"]
        found.expiry = _token_expiry(str(config.get("id-token", "")))
        found.remembered = {key: config[key] for key in _REMEMBERED if key in config}
    return found


async def _ask_package(context: Context, user: Entry, path: str, found: Credentials) -> None:
    """Let kubernetes_asyncio determine what is still lacking in `found`; raise KubeconfigError."""
    module = load_package(path)
    if hasattr(module, "OpenIDRequestor"):
        module.OpenIDRequestor = _verifying(module.OpenIDRequestor)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": context.cluster["server"]}}],
        "users": [{"name": "u", "user": user}],
    }
    chosen = SimpleNamespace(api_key={})
    folder = tempfile.mkdtemp(prefix="hsdns-", dir=_memory_folder())  # mode 0700
    try:
        loader = await module.load_kube_config_from_dict(
            config, client_configuration=chosen, temp_file_path=folder
        )
        found.authorization = str(chosen.api_key.get("BearerToken", ""))
        if "exec" in user:
            expiry = getattr(loader, "exec_plugin_expiry", None)
            found.expiry = expiry.timestamp() if expiry is not None else None
            if getattr(chosen, "cert_file", None) and getattr(chosen, "key_file", None):
                found.certificate = _pem_of(chosen.cert_file)
                found.key = _pem_of(chosen.key_file)
            elif not found.authorization:
                raise KubeconfigError(
                    f"{_plugin(user, path)} gave neither a token nor a certificate with its key"
                )
    except KubeconfigError:
        raise
    except FileNotFoundError:
        hint = " ".join(str(user.get("exec", {}).get("installHint") or "is it installed?").split())
        raise KubeconfigError(f"{_plugin(user, path)} was not found; {hint[:400]}") from None
    except Exception as error:  # noqa: BLE001, RUF100 - the package raises all kinds of exceptions
        secrets = Redaction(str(user[key]) for key in ("token", "password") if key in user)
        words = " ".join(secrets(str(error)).split())[:400] or type(error).__name__
        what = _plugin(user, path) if "exec" in user else f"kubeconfig {path}"
        raise KubeconfigError(f"{what} gives no credentials: {words}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def load_package(path: str) -> Any:
    """Import kubernetes_asyncio.config.kube_config, if possible without the API models; raise KubeconfigError."""
    root = importlib.util.find_spec(PACKAGE)
    if root is None or not root.submodule_search_locations:
        raise KubeconfigError(f"kubeconfig {path} needs the Python package {PACKAGE}; {INSTALL}")
    wanted = f"{PACKAGE}.config.kube_config"
    bare, client = ModuleType(PACKAGE), ModuleType(f"{PACKAGE}.client")
    bare.__path__ = list(root.submodule_search_locations)
    # Used only in annotations and defaults; this module always passes the configuration.
    client.ApiClient = client.Configuration = object  # type: ignore[attr-defined] # a module made here
    sys.modules |= {PACKAGE: bare, client.__name__: client}
    try:
        module = importlib.import_module(wanted)
        if callable(module.load_kube_config_from_dict):
            return module
    except (ImportError, AttributeError):
        pass  # another version has another layout: import it whole
    for loaded in [key for key in sys.modules if key.partition(".")[0] == PACKAGE]:
        del sys.modules[loaded]
    try:
        return importlib.import_module(wanted)
    except ImportError as error:
        raise KubeconfigError(
            f"kubeconfig {path} needs the Python package {PACKAGE}, which cannot be loaded: {error}"
        ) from None


def _verifying(requestor: Any) -> Any:
    """Make OIDC refreshes verify the provider's certificate: version 36.1.0 does not, and fails if a CA is given."""
    import aiohttp  # noqa: PLC0415 - after the package, which may be absent

    class Verifying(requestor):  # type: ignore[misc] # a class known at run time only
        def _get_connector(self) -> aiohttp.TCPConnector:
            context = ssl.create_default_context(cafile=self._ssl_ca_cert)
            return aiohttp.TCPConnector(ssl=context)

    return Verifying


def _provider(user: Entry, remembered: Entry, path: str) -> Entry:
    """Return a user's auth-provider, with the tokens of an earlier refresh; {} if there is none."""
    provider = user.get("auth-provider")
    if not provider:
        return {}
    if provider.get("name") not in _PROVIDERS:
        raise KubeconfigError(
            f'kubeconfig {path} names the auth-provider "{provider.get("name")}"; only '
            f"{' and '.join(_PROVIDERS)} are supported; use an exec plugin instead"
        )
    config = dict(provider.get("config") or {}) | {
        key: str(remembered[key]) for key in _REMEMBERED if key in remembered
    }
    authority = config.pop("idp-certificate-authority", None)
    if authority and "idp-certificate-authority-data" not in config:
        try:
            content = Path(path).absolute().parent.joinpath(str(authority)).read_bytes()
        except OSError as error:
            raise KubeconfigError(f"cannot read {authority}: {error.strerror}") from None
        config["idp-certificate-authority-data"] = base64.b64encode(content).decode()
    return {"name": provider["name"], "config": config}


def _pem_of(path: str) -> Pem:
    return Pem(pem=Path(path).read_text())


def _plugin(user: Entry, path: str) -> str:
    return f'the exec plugin "{user.get("exec", {}).get("command")}" of kubeconfig {path}'


def _token_expiry(token: str) -> float | None:
    """Return the expiry of a JSON Web Token (RFC 7519 section 4.1.4) in seconds since 1970."""
    try:
        part = token.split(".")[1]
        expiry = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["exp"]
        return float(expiry)
    except (LookupError, ValueError, TypeError):
        return None


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108, RUF100 - mkdtemp makes a private folder in it
