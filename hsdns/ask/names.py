"""The domain name that a person means: a short name, `service/web`, `pod/db-0`, `shop/web`, a URL, a gRPC target.

Path: the word of a command, or `name` of /v1/explain -> read_word() -> full_name() -> a query.
Rule 1: a name with a dot at its end, or in a zone of the server, is that name, and so is the name that a program looks
        up by a search list: there only the host of a URL or a target is taken.
Rule 2: else a short name is one of the cluster.  Its last label is `svc` or `pod`, or a namespace that exists, or it
        is in the namespace that is given; a single label is a Service, in the default namespace if none is given.
Rule 3: `shop/web` is NAMESPACE/NAME of a Service, else of a Pod.
Source: https://github.com/grpc/grpc/blob/master/doc/naming.md, and kubectl's TYPE/NAME.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

from hsdns.errors import OperatorError

DOMAIN: Final = "cluster.local"
NAMESPACE: Final = "default"
KINDS: Final = {
    **dict.fromkeys(("service", "services", "svc"), "service"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
}
_OTHER_KINDS: Final = frozenset(
    "deployment deployments deploy statefulset statefulsets sts daemonset daemonsets ds replicaset replicasets rs job "
    "jobs cronjob cronjobs ingress ingresses ing configmap configmaps cm secret secrets endpoints ep endpointslice "
    "endpointslices namespace namespaces ns node nodes no".split()
)
_PORT: Final = re.compile(r":\d{1,5}$")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")


class BadWord(OperatorError, ValueError):
    """A word that names nothing in DNS; the message is a sentence."""


class Word(NamedTuple):
    """What a word names: `kind` is host, service, pod, object, or address; `namespace` is "" if none is given.

    `default` is the namespace of a single label then.
    """

    kind: str
    name: str
    namespace: str
    default: str = NAMESPACE

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces in which it may be."""
        labels = self.name.lower().removesuffix(".").split(".")
        at = next(
            (number for number, each in enumerate(labels) if each in ("svc", "pod")), len(labels)
        )
        last = labels[at - 1 : at] if self.kind == "host" and at > 1 else []
        own = self.namespace or self.default
        return tuple(dict.fromkeys([own, *(each for each in last if _LABEL.fullmatch(each))]))

    @property
    def is_of_cluster(self) -> bool:
        """Whether it looks like a name of a cluster: an object, a short name, or one with `svc` or `pod`."""
        name = f"{self.name.lower()}."
        marks = (".svc.", ".pod.")
        return self.kind not in ("host", "address") or (
            self.kind == "host" and (name.count(".") < 3 or any(each in name for each in marks))
        )

    @property
    def is_whole(self) -> bool:
        """Whether no cluster has to be known for its domain name."""
        name = f".{self.name.lower()}"
        marks = (".svc.", ".pod.", ".in-addr.arpa", ".ip6.arpa")
        return self.kind == "address" or (
            self.kind == "host" and (name.endswith(".") or any(each in name for each in marks))
        )


def read_word(text: str, namespace: str = "") -> Word:
    """Read a word; raise BadWord."""
    if not text:
        raise BadWord('the name is empty; the root is "."')
    resource, slash, rest = text.partition("/")
    kind = KINDS.get(resource.lower(), "")
    if kind:
        if not rest or not set(rest).isdisjoint("/:"):
            raise BadWord(f'{resource}/NAME names a {kind.capitalize()}, found "{text}"')
        # svc/web.shop: a Service has no dot in its name.
        is_host = kind == "service" and "." in rest
        return Word("host" if is_host else kind, rest.lower(), namespace)
    scheme, marker, url = text.partition("://")
    if not marker and scheme.startswith("dns:"):  # gRPC: dns:HOST:PORT
        marker, url = ":", scheme.removeprefix("dns:")
    elif scheme == "dns" or url.startswith("/"):  # gRPC: dns://AUTHORITY/HOST:PORT
        url = url.partition("/")[2]
    if marker:
        host = re.split(r"[/?#]", url)[0].rpartition("@")[2]
    elif slash and resource.lower() in _OTHER_KINDS:
        raise BadWord(
            f'DNS has names of Services and Pods: service/NAME and pod/NAME, found "{text}"'
        )
    elif slash and _LABEL.fullmatch(resource.lower()) and not resource.isdigit():
        if not _OBJECT.fullmatch(rest.lower()):
            raise BadWord(f'NAMESPACE/NAME names a Service or a Pod, found "{text}"')
        if namespace not in ("", resource.lower()):
            raise BadWord(f"-n {namespace} and {text} name two namespaces; use only one")
        return Word("object", rest.lower(), resource.lower())
    elif slash and not resource.isdigit():  # digits: a label of RFC 2317
        host = resource
    else:
        host = text
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = _PORT.sub("", host)
    if marker and not host:
        raise BadWord(f'"{text}" names no host')
    try:
        return Word("address", str(ip_address(host)), namespace)
    except ValueError:
        pass
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError as error:
            raise BadWord(f'"{text}" is not a domain name: {error}') from None
    return Word("host", host, namespace)


def full_name(
    word: Word, domain: str, zones: Iterable[str], has_namespace: Callable[[str], bool]
) -> str:
    """The domain name of a word that is no Pod; `domain` is that of the cluster, "" if there is none.

    `zones` are those of the server, but the root, and `has_namespace` says whether the cluster has one.
    Raise BadWord.
    """
    name, namespace = word.name, word.namespace
    if word.kind in ("service", "object"):
        if not domain:
            raise BadWord("no zone of a cluster is served, so a Service has no name")
        return f"{name}.{namespace or word.default}.svc.{domain}."
    labels = name.lower().split(".")
    last = labels[-1]
    if (
        word.is_whole
        or not domain
        or "" in labels
        or max(map(len, labels)) > 63
        or labels == ["localhost"]
        or any(f".{name.lower()}".endswith(f".{each.lower().strip('.')}") for each in zones)
    ):
        return name
    if len(labels) > 1 and last in ("svc", "pod"):
        return f"{name}.{domain}."
    if len(labels) > 1 and (last == namespace or (not namespace and has_namespace(last))):
        return f"{name}.svc.{domain}."
    if namespace or len(labels) == 1:
        return f"{name}.{namespace or word.default}.svc.{domain}."
    return name


def taken_for(text: str, name: str) -> str:
    """The sentence that says which name a word was taken for; "" if it is the same."""
    shown, whole = text.lower().removesuffix("."), name.lower().removesuffix(".")
    return "" if shown == whole else f"{text} is read as {name}"
