"""The Corefile that `hsdns serve` and `hsdns names` use without --conf, made from their flags.

Path: cli/serve.py, cli/names.py -> here -> cli/launch.py.
Rule 1: without -forward the block has the cluster's zones only, so that other names are REFUSED; a second block refuses
        them too, and logs them, with -log.  With --forward one block is for all names.
Rule 2: for the replay of a recording it has the zones and properties of the recorded block.  The file is not trusted,
        so only properties that shape answers are used.
Rule 3: values of flags are checked here, so that an error names the flag and not a Corefile that the user has not seen.

The demo cluster: the manifests in `hsdns/demo/`, which come with hsdns.

The flag `--source` of the subcommands: its words, standard input, and missing sources:
Rule: standard input is read before anything is started, so that Ctrl-C ends the wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeGuard

from hsdns.cli.command import (
    CONTEXT,
    CONTROL,
    KUBECONFIG,
    NO_CODE,
    Command,
    Flag,
    FlagError,
    complain,
    flag,
)
from hsdns.corefile.lexer import Source, tokenize
from hsdns.corefile.tree import CorefileError, Position, Token, did_you_mean
from hsdns.wire import is_address

if TYPE_CHECKING:
    from hsdns.assemble import Configuration
    from hsdns.cli.launch import CorefileSource
    from hsdns.cli.running_server import RunningServer
    from hsdns.recording.entry import Header

NAME: Final = "built-in Corefile"  # in the position of an error
ZONES: Final = "cluster.local in-addr.arpa ip6.arpa"
LOOPBACK: Final = ("127.0.0.1", "::1")
DEMO: Final = "demo"  # the demo cluster, in flags
SOURCE: Final = Flag.of(
    "source of the cluster: manifests PATH... (- is standard input), replay FILE [KEY=VALUE...], "
    "synthetic KEY=VALUE..., or demo, the demo cluster",
    "NAME [ARGUMENT...]",
)
SERVED: Final = SOURCE._replace(help=f"{SOURCE.help} (default: the demo cluster)")
CONF: Final = Flag.of(
    'Corefile to load instead of the built-in one, "stdin" for standard input', "FILE"
)
FORWARD: Final = Position("--forward", 0, 0)
Interfaces = Callable[[], Mapping[str, Sequence[str]]]


def corefile(
    hosts: Sequence[str],
    *,
    forward: Sequence[str] = (),
    log: bool = False,
    header: Header | None = None,
) -> str:
    """The text of the Corefile; it serves the demo cluster unless the command line names another source.

    `header` is the header of the replayed recording; raise CorefileError if its words are none of a Corefile.
    """
    zones = ZONES
    if header is not None and header.zones:  # with its dot a zone is never a snippet or an import
        zones = " ".join(quoted(f"{each.removesuffix('.')}.") for each in header.zones)
    bind = f"    bind {' '.join(map(quoted, hosts))}"
    lines = [
        f"{'.' if forward else zones} {{",
        bind,
        "    errors",
        *(["    log"] if log else []),
        f"    kubernetes {zones} {{",
        *_properties(header),
        *(["        fallthrough in-addr.arpa ip6.arpa"] if forward else []),
        f"        source manifests {quoted(str(demo_folder()))}",
        "    }",
        *([f"    forward . {' '.join(map(quoted, forward))}", "    loop"] if forward else []),
        "    loadbalance",
        "}",
    ]
    if log and not forward:
        lines += [
            ". {",
            bind,
            "    log",
            "    template ANY ANY {",
            "        rcode REFUSED",
            "    }",
            "}",
        ]
    return "\n".join(lines) + "\n"


def kubernetes_alone(zones: str, lines: str = "") -> str:
    """The text of a Corefile with nothing but `kubernetes` for some zones, with these lines as its properties."""
    return f"{zones} {{\n    kubernetes {zones} {{\n{lines}    }}\n}}\n"


def _properties(header: Header | None) -> list[str]:
    if header is None:
        return ["        pods insecure", "        ttl 30"]
    from hsdns.recording.entry import SHAPING

    return [
        f"        {' '.join([line[0], *map(quoted, line[1:])])}"
        for line in header.kubernetes
        if line and line[0] in SHAPING
    ]


def listen_hosts(text: str, flag: str, interfaces: Interfaces) -> tuple[str, ...]:
    """The words for `bind`; raise FlagError.  `localhost` means the loopback addresses that this host has."""
    if text.lower() == "localhost":
        own = {address for addresses in interfaces().values() for address in addresses}
        return tuple(each for each in LOOPBACK if each in own) or LOOPBACK[:1]
    if is_address(text):
        return (text,)
    known = interfaces()
    if text in known:
        return (text,)
    host, colon, port = text.rpartition(":")
    if colon and port.isdigit() and (is_address(host.strip("[]")) or host in (*known, "localhost")):
        raise FlagError(
            f'{flag} takes an address without a port, found "{text}"; '
            f"write {flag} {host.strip('[]')} -p {port}"
        )
    hint = did_you_mean(text, [*known, "localhost"])
    raise FlagError(
        f'{flag} needs an IP address, localhost or an interface of this machine, found "{text}"{hint}'
    )


def check_upstreams(words: Sequence[str]) -> None:
    """Raise FlagError for a word of --forward that is not a server."""
    from hsdns.upstream.target import read_upstreams

    for word in words:
        try:
            found = read_upstreams(Token(word, FORWARD))
        except CorefileError as error:
            raise FlagError(str(error)) from None
        if not found:
            raise FlagError(f'--forward: "{word}" names no server; add a nameserver line to it')


def corefile_source(conf: object, text: str) -> CorefileSource:
    """The source of the Corefile: --conf, or the built-in one with `text`."""
    from hsdns.cli.launch import CorefileSource

    if conf is None:
        return CorefileSource(NAME, text, text)
    return CorefileSource.from_flag(str(conf), text)


def quoted(word: str) -> str:
    """A word as one token of a Corefile; raise CorefileError if no token can be it, so that none ends early."""
    text = '"' + word.replace('"', '\\"') + '"'
    if word in ("{", "}") or [each.text for each in tokenize(Source(text, NAME))] != [word]:
        raise CorefileError(Position(NAME, 1, 1), f"{text} cannot be written in a Corefile")
    return text


def demo_folder() -> Path:
    """The folder of its manifests."""
    return Path(str(files("hsdns") / "demo"))


def expect_demo() -> None:
    """Log no line about the object of the demo cluster that is invalid on purpose."""
    logging.getLogger("hsdns.plugin.kubernetes").addFilter(
        lambda record: "Service broken/address:" not in record.getMessage()
    )


def demo_manifests() -> bytes:
    """All its manifests as one file."""
    return b"\n---\n".join(each.read_bytes() for each in sorted(demo_folder().rglob("*.yaml")))


_POSITION: Final = Position("--source", 0, 0)


class SourceOptions(Command):
    """A command that reads a cluster: from a source, or as a Corefile says."""

    source: list[str] | None = flag(None, SERVED)
    conf: str | None = flag(None, CONF)

    def objects(self) -> tuple[Token, ...] | None:
        """The words of --source, None without it; raise FlagError."""
        return None if self.source is None else source_tokens(self.source, self.conf)


class SourceCommand(SourceOptions):
    """A command that reads a cluster: from a source, as a Corefile says, or at the API server of a kubeconfig."""

    source: list[str] | None = flag(None, SOURCE)
    kubeconfig: str = flag("", KUBECONFIG)
    context: str = flag("", CONTEXT)
    no_code: bool = flag(False, NO_CODE)

    def objects(self) -> tuple[Token, ...] | None:
        """The words of -source, or of a kubeconfig; None without -source, -kubeconfig and -context; raise FlagError."""
        for each in ("context", "kubeconfig"):
            self.exclusive(each, "source")
            if each in self.given:
                return cluster_tokens(access_of(self.kubeconfig, self.context))
        return super().objects()

    def cluster(self) -> tuple[Token, ...] | None:
        """The words of a source, None with --conf alone; by default the cluster of this pod or of the kubeconfig.

        Raise FlagError.
        """
        objects = self.objects()
        return objects if objects is not None or self.conf is not None else looking_at()


class ClusterCommand(SourceCommand):
    """A command that looks at a cluster, without flags at the first that there is (docs/command-line.md)."""

    control: str | None = flag(None, CONTROL)

    def found(self) -> RunningServer | tuple[Token, ...] | None:
        """What the flags name, else the running server, else the cluster of this pod or of the kubeconfig.

        A server, or the words of a source, None with --conf alone.  Raise FlagError or ServerError.
        """
        from hsdns.cli import running_server

        for each in ("conf", "source", "context", "kubeconfig"):
            self.exclusive("control", each)
        objects = self.objects()
        if objects is not None or self.conf is not None:
            return objects
        try:
            return running_server.looking_at(self.control)
        except running_server.NotRunning as error:
            try:
                return looking_at()
            except FlagError as lacking:
                raise running_server.NotRunning(f"{error}; {lacking}") from None


def looking_at() -> tuple[Token, ...]:
    """The cluster of this pod, or of the kubeconfig, which standard error names; raise FlagError."""
    access = access_of()
    complain(f"looking at {cluster_text(access)}")
    return cluster_tokens(access)


def access_of(kubeconfig: str = "", context: str = "") -> tuple[str, ...]:
    """FILE and CONTEXT of the kubeconfig that flags name, () in a pod, else of the usual one; raise FlagError."""
    if not kubeconfig and not context and is_in_pod():
        return ()
    path, context = find_kubeconfig(kubeconfig, context)
    return (path, *filter(None, [context]))


def cluster_tokens(access: Sequence[str]) -> tuple[Token, ...]:
    """The source that is the API server of FILE and CONTEXT of a kubeconfig, or without them of this pod's cluster."""
    position = Position("--kubeconfig", 0, 0)
    return tuple(Token(word, position) for word in ("kubeconfig", *access))


def is_cluster(objects: tuple[Token, ...] | None) -> TypeGuard[tuple[Token, ...]]:
    """Whether the words of a source are those of an API server, whose cluster has a Corefile of its own."""
    return objects is not None and objects[0].text == "kubeconfig"


def cluster_text(access: Sequence[str]) -> str:
    """That API server, in a sentence."""
    if not access:
        return "the cluster of this pod"
    file, context = (*access, "")[:2]
    if context:
        return f"the cluster of context {context} of {file}"
    from hsdns.apiserver.kubeconfig import KubeconfigError, read_context

    with contextlib.suppress(KubeconfigError):  # connecting says why
        context = f", {read_context(file).name},"
    return f"the cluster of the current context{context} of {file}"


def default_namespace(objects: tuple[Token, ...] | None) -> str:
    """The namespace of this pod or of the context, if these words of a source are an API server's; else `default`."""
    from hsdns.apiserver.access import SERVICE_ACCOUNT
    from hsdns.apiserver.kubeconfig import KubeconfigError, read_context
    from hsdns.ask.names import NAMESPACE

    found = ""
    if is_cluster(objects):
        access = [each.text for each in objects[1:]]
        with contextlib.suppress(KubeconfigError, OSError):  # connecting says why
            path = Path(SERVICE_ACCOUNT, "namespace")
            found = read_context(*access).namespace if access else path.read_text().strip()
    return found or NAMESPACE


def options_of(access: Sequence[str]) -> list[str]:
    """The options of kubectl and istioctl for that API server."""
    return [
        f"{option}={word}"
        for option, word in zip(("--kubeconfig", "--context"), access, strict=False)
    ]


def is_in_pod() -> bool:
    """Whether this process has the service account of a pod."""
    from hsdns.apiserver.access import InCluster

    return not InCluster(os.environ, time.monotonic, lambda sentence: None).check()


def find_kubeconfig(given: str = "", context: str = "") -> tuple[str, str]:
    """The path of the kubeconfig that kubectl uses, and the context; of several in KUBECONFIG that which has it.

    Raise FlagError.
    """
    usual = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    paths = [given] if given else usual or [os.path.expanduser("~/.kube/config")]
    found = [each for each in paths if os.path.isfile(each)]
    if not found:
        raise FlagError(
            f"there is no kubeconfig {' and no '.join(paths)}; add --kubeconfig FILE, or --source"
        )
    if not found[1:]:
        return found[0], context
    from hsdns.apiserver.kubeconfig import KubeconfigError, file_with_context

    try:
        return file_with_context(found, context)
    except KubeconfigError as error:
        raise FlagError(str(error)) from None


def source_tokens(words: list[str], conf: str | None) -> tuple[Token, ...]:
    """Return the words of `--source`; read standard input if they name it.  Raise FlagError; `conf` is that flag."""
    if words == [DEMO]:
        expect_demo()
        words = ["manifests", str(demo_folder())]
    elif words[:1] == ["kubeconfig"]:
        raise FlagError(
            "--source kubeconfig: a kubeconfig has its own flags; write --kubeconfig FILE, or --context NAME"
        )
    if words[:1] == ["manifests"] and "-" in words[1:]:
        if conf == "stdin":
            raise FlagError(
                "--conf stdin and --source manifests - would both read standard input; write one of them to a file"
            )
        _read_standard_input()
    return tuple(Token(word, _POSITION) for word in words)


def recorded_header(objects: Sequence[Token] | None) -> Header | None:
    """The header of the recording in --source; None without one, or if check_sources() will refuse it."""
    if not objects or objects[0].text != "replay" or len(objects) == 1:
        return None
    from hsdns.recording.reader import BadRecording, Recording

    try:
        with Recording.open(objects[1].text) as recording:
            return recording.header
    except (BadRecording, OSError):
        return None


def check_sources(configuration: Configuration) -> None:
    """Raise FileNotFoundError for the first unreadable file or kubeconfig of a source: nothing would be served."""
    from hsdns.plugins.kubernetes import Kubernetes
    from hsdns.sources.api_server import ApiServer
    from hsdns.sources.manifest_folder import missing_paths
    from hsdns.sources.manifests import Manifests
    from hsdns.sources.replay import Replay

    for plugin in configuration.plugins:
        if not isinstance(plugin, Kubernetes):
            continue
        source, missing = plugin.source, []
        if isinstance(source, Manifests):
            missing = missing_paths(source.paths)
        elif isinstance(source, Replay) or (isinstance(source, ApiServer) and plugin.kubeconfig):
            missing = source.check()
        for sentence in missing:
            raise FileNotFoundError(sentence)


def _read_standard_input() -> None:
    from hsdns.sources.manifest_folder import standard_input

    if sys.stdin.isatty():
        complain("reading manifests from standard input; end them with Ctrl-D")
    try:
        found = standard_input()
    except KeyboardInterrupt:
        raise FlagError("interrupted while manifests were read from standard input") from None
    if found is None:
        raise FlagError(
            "standard input is empty, so there are no manifests; did the command before the pipe fail?"
        )
    if found.problems and not found.documents:  # they could not be corrected while the server runs
        *others, last = found.problems
        complain(*others)
        raise FlagError(last)
