"""The flag `-source` of the subcommands: its words, standard input, and missing sources.

Path: cli/serve.py, cli/names.py, cli/explain.py, cli/resolve.py -> here -> sources/.
Rule: standard input is read before anything is started, so that Ctrl-C ends the wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from hsdns.cli import builtin
from hsdns.cli.command import NO_CODE, Command
from hsdns.cli.flags import FlagError
from hsdns.cli.output import complain
from hsdns.corefile.tree import Position, Token

if TYPE_CHECKING:
    from hsdns.assemble import Configuration
    from hsdns.recording.entry import Header
    from hsdns.wire.name import Name

_POSITION: Final = Position("-source", 0, 0)


class SourceOptions(Command):
    """A command that reads a cluster: from a source, or as a Corefile says."""

    source: Annotated[list[str] | None, builtin.SOURCE] = None
    conf: Annotated[str | None, builtin.CONF] = None

    def objects(self) -> tuple[Token, ...] | None:
        """The words of -source, None without it; raise FlagError."""
        return None if self.source is None else source_tokens(self.source, self.conf)

    def question(self) -> tuple[Name, int]:
        """The name and the type of the words; raise FlagError."""
        from hsdns.explanation.question import read_question

        self.name_and_type()
        try:
            return read_question(*self.words)
        except ValueError as error:
            raise FlagError(str(error)) from None


class SourceCommand(SourceOptions):
    """A command that reads a cluster, and runs none of the code that it names if told so."""

    no_code: Annotated[bool, NO_CODE] = False

    @property
    def runs_code(self) -> bool:
        """Whether code that the input names may run."""
        return not self.no_code


def source_tokens(words: list[str], conf: str | None) -> tuple[Token, ...]:
    """Return the words of `-source`; read standard input if they name it.  Raise FlagError; `conf` is that flag."""
    if words[:1] == ["manifests"] and "-" in words[1:]:
        if conf == "stdin":
            raise FlagError(
                "-conf stdin and -source manifests - would both read standard input; write one of them to a file"
            )
        _read_standard_input()
    return tuple(Token(word, _POSITION) for word in words)


def recorded_header(objects: Sequence[Token] | None) -> Header | None:
    """The header of the recording in -source; None without one, or if check_sources() will refuse it."""
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
    if found.problems:  # they could not be corrected while the server runs
        *others, last = found.problems
        complain(*others)
        raise FlagError(last)
