"""Parser of the Corefile: words to server blocks, directives and properties.

Path: stream -> [parser] -> tree, for assemble and the plugins' setup.
Rule 1: every Corefile that CoreDNS accepts is accepted, with a warning if it is misleading.  Exceptions, which are
        errors: words after a body's `}`, a body's `{` on a line of its own, and braces within a body.
Rule 2: `{`, `}` and `import` are recognised as written, quoted or not, before environment variables are substituted.
Rule 3: the caller passes environment, plugin names and file access; only Disk uses the disk.
Rule 4: a `}` on the line of a property is the last word of that line too, as for Caddy's Dispenser: a plugin that reads
        all words of the line takes it for an argument (Property in properties.py).
Source: caddyfile/parse.go of the fork that CoreDNS 1.14.7 uses.

The files that a Corefile was read from, and whether one of them has changed since; lifecycle.py checks before it parses
again:
Rule: changes are detected in what the parser received: the octets of each file, the file names of each glob, or the
        error.  So modification times do not matter, and a change between two reads is not missed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from hsdns.corefile.keys import parse_key, zone_warning
from hsdns.corefile.lexer import Files, Lexeme, Source, Stream
from hsdns.corefile.properties import about_directive
from hsdns.corefile.tree import (
    Corefile,
    CorefileError,
    Directive,
    Errors,
    Line,
    Position,
    ServerBlock,
    Token,
    did_you_mean,
)


class Disk(Files):
    """The files of this machine."""

    def open_file(self, path: str) -> str:
        """Read a file; bytes that are not UTF-8 become replacement characters, as in CoreDNS."""
        return Path(path).read_bytes().decode("utf-8", "replace")

    def list_files(self, pattern: str) -> Sequence[str]:
        """List the files that match a glob, hidden ones too, sorted by path component."""
        from glob import glob  # noqa: PLC0415 - few Corefiles import files

        return sorted(glob(pattern, include_hidden=True), key=lambda path: path.split(os.sep))


DISK: Final = Disk()


def parse(
    path: str,
    *,
    text: str | Source | None = None,
    environ: Mapping[str, str],
    known_directives: Collection[str],
    not_yet: Mapping[str, str] = MappingProxyType({}),
    files: Files = DISK,
    errors: Errors | None = None,
    keeps_unknown: bool = False,
) -> Corefile:
    """Parse a Corefile and its imports; raise CorefileError for the first error, or collect all in `errors`.

    `text` is the content if `path` is only its name in messages.  `not_yet` are the plugins of CoreDNS that hsdns
    lacks, with the reasons that their errors give.  With `keeps_unknown` the tree has directives that are not known,
    too.  An empty file gives a tree without blocks.
    """
    errors = errors if errors is not None else Errors()
    if text is None:
        text = read_text(path, files)
    warnings: list[str] = []

    def warn(position: Position, message: str) -> None:
        warnings.append(f"{position}: {message}")

    source = text if isinstance(text, Source) else Source(text, path)
    stream = Stream(source, environ, files, warn)
    blocks = tuple(_Parser(stream, known_directives, not_yet, warn, errors, keeps_unknown).blocks())
    for block in blocks:
        for token in block.keys:
            with errors:
                for key in parse_key(token, 53):
                    warning = zone_warning(key)
                    if warning:
                        warn(token.position, warning)
    return Corefile(path, blocks, tuple(warnings), digest(blocks))


def read_text(path: str, files: Files) -> str | Source:
    """The text of a Corefile; raise CorefileError if it cannot be read."""
    try:
        return files.open_file(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise Position(path, 1, 1).error(f"cannot read the Corefile: {reason}") from error


def digest(blocks: Sequence[ServerBlock]) -> str:
    """Hash the words of the blocks, not their positions or layout (SHA-512, hex)."""
    sha512 = hashlib.sha512()
    for block in blocks:
        _add_words(sha512, "block", block.keys)
        for directive in block.directives:
            _add_words(sha512, "directive", (directive.name, *directive.args))
            if directive.body is not None:
                _add_words(sha512, "body", ())
                for line in directive.body:
                    _add_words(sha512, "line", (line.name, *line.args))
    return sha512.hexdigest()


class _Parser:
    def __init__(
        self,
        stream: Stream,
        known: Collection[str],
        not_yet: Mapping[str, str],
        warn: Callable[[Position, str], None],
        errors: Errors,
        keeps_unknown: bool,
    ) -> None:
        self._stream, self._known, self._not_yet, self._warn = stream, known, not_yet, warn
        self._errors, self._keeps_unknown = errors, keeps_unknown

    def blocks(self) -> Iterator[ServerBlock]:
        """Parse all server blocks and define the snippets; stop at an error that leaves the structure unknown."""
        stream, is_known = self._stream, True
        while is_known and (first := stream.peek()) is not None:
            is_known, keys, directives = False, tuple[Token, ...](), list[Directive]()
            with self._errors:
                keys = self._keys()
                opening = stream.peek()
                if opening is not None and len(keys) == 1 and _is_snippet(keys[0].text):
                    self._snippet(keys[0], opening)
                    is_known = True
                    continue
                self._directives(opening, directives)
                is_known = True
            if keys:
                yield ServerBlock(keys, tuple(directives))
            elif is_known and (opening is not None or first.text != "import"):
                lacking = stream.substitute(first).lacking
                self._warn(
                    first.position,
                    'this server block has no zone and is ignored; give it one, such as "."'
                    + (f" ({lacking})" if lacking else ""),
                )

    def _keys(self) -> tuple[Token, ...]:
        """Parse the keys up to `{` or the end of the line; a comma continues them on the next line."""
        stream, keys = self._stream, list[Token]()
        comma: Token | None = None
        continued = True
        while (lexeme := stream.peek()) is not None and (continued or not lexeme.starts_line):
            token = stream.substitute(lexeme)
            if token.text == "import" and lexeme.starts_line:
                self._import()
                continued = True
                continue
            if token.text == "{":
                if comma is not None:
                    raise comma.error(
                        f'a key must follow the comma of "{comma.text},"; remove the comma'
                    )
                if lexeme.text != "{":
                    raise lexeme.position.error(
                        f'"{lexeme.text}" expands to an opening brace; write "{{" in the Corefile'
                    )
                return tuple(keys)
            stream.take()
            if token.text:
                comma = None
                if token.text.endswith(","):
                    comma = token = token._replace(text=token.text[:-1])
                keys.append(token)
            continued = comma is not None
        if comma is not None:
            raise comma.error(f'the file ends after the comma of "{comma.text},"; remove the comma')
        return tuple(keys)

    def _snippet(self, key: Token, opening: Lexeme) -> None:
        stream = self._stream
        if opening.text != "{":
            raise opening.position.error(
                f'expected the "{{" of snippet "{key.text}", found "{opening.text}"'
            )
        stream.take()
        depth, body = 1, list[Lexeme]()
        while True:
            if stream.peek() is None:
                raise self._never_closed(opening, f'snippet "{key.text}"', body)
            lexeme = stream.take()
            if lexeme.text == "}":
                depth -= 1
                if depth == 0:
                    break
            elif lexeme.text == "{":
                depth += 1
            body.append(lexeme)
        with self._errors:
            stream.define_snippet(key.text[1:-1], key, body)

    def _import(self) -> None:
        """Replace an `import` by what it names; after an error skip the rest of its line."""
        stream = self._stream
        with self._errors:
            stream.expand_import()
            return
        while (lexeme := stream.peek()) is not None and not lexeme.starts_line:
            stream.take()

    def _directives(self, opening: Lexeme | None, directives: list[Directive]) -> None:
        """Parse a block's directives into a list; braces are optional if the file has only one block."""
        stream = self._stream
        braced = opening is not None and opening.text == "{"
        if braced:
            stream.take()
        while (lexeme := stream.peek()) is not None:
            if lexeme.text == "}":
                stream.take()
                if not braced:
                    self._warn(lexeme.position, 'this "}" closes nothing; it ends the server block')
                return
            if lexeme.text == "import":
                self._import()
            else:
                self._directive(braced, directives)
        if braced and opening is not None:
            # CoreDNS accepts the `}` of the last body as that of the block.
            if stream.last is None or stream.last.text != "}":
                raise self._never_closed(opening, "the server block", [])
            self._warn(
                opening.position,
                'this "{" is never closed; add a "}" at the end of the server block',
            )

    def _directive(self, braced: bool, directives: list[Directive]) -> None:
        """Parse a directive and append it; one that is not known is left out, unless it is kept."""
        stream = self._stream
        lexeme = stream.take()
        name = stream.substitute(lexeme)
        is_known = name.text in self._known
        if not is_known:
            error = name.error(self._unknown(lexeme, name, braced, directives))
            if "{" in name.text or "}" in name.text:  # where its body ends cannot be told
                raise error
            self._errors.add(error)
        found = self._words(name)
        if is_known or self._keeps_unknown:
            directives.append(found)

    def _words(self, name: Token) -> Directive:
        """Parse the arguments and the body of a directive."""
        stream = self._stream
        args = list[Token]()
        while (lexeme_ := stream.peek()) is not None:
            if lexeme_.text == "{":
                if lexeme_.starts_line:
                    raise lexeme_.position.error(
                        f'the "{{" of "{name.text}" must be at the end of the same line, not on the next'
                    )
                return Directive(name, tuple(args), *self._body(name, stream.take()))
            if lexeme_.starts_line:
                break
            if lexeme_.text == "}":
                raise lexeme_.position.error(
                    'no "{" for this "}"; to close the server block, put it on a line of its own'
                )
            args.append(stream.substitute(stream.take()))
        return Directive(name, tuple(args), None)

    def _body(self, name: Token, opening: Lexeme) -> tuple[tuple[Line, ...], bool]:
        """The lines, and whether there are none before a brace in the same line."""
        stream, rows, words = self._stream, list[list[Token]](), list[Lexeme]()
        while True:
            lexeme = stream.peek()
            if lexeme is None:
                raise self._never_closed(opening, f'"{name.text}"', words)
            if lexeme.text == "import" and lexeme.starts_line:
                self._import()
                continue
            if lexeme.text == "{":
                raise lexeme.position.error(
                    f'"{name.text}" has no braces within its braces; is a "}}" missing above?'
                )
            stream.take()
            if lexeme.text == "}":
                if rows and not lexeme.starts_line:
                    rows[-1].append(stream.substitute(lexeme))
                break
            if lexeme.starts_line or not rows:
                rows.append([])
            rows[-1].append(stream.substitute(lexeme))
            words.append(lexeme)
        after = stream.peek()
        if after is not None and not after.starts_line:
            raise after.position.error(
                f'expected the end of the line after the "}}" of "{name.text}", found "{after.text}"'
            )
        is_one_line = not rows and not lexeme.starts_line
        return tuple(Line(row[0], tuple(row[1:])) for row in rows), is_one_line

    def _unknown(
        self, lexeme: Lexeme, name: Token, braced: bool, before: Sequence[Directive]
    ) -> str:
        word = name.text
        if word in self._not_yet:
            return f'directive "{word}" exists in CoreDNS but not in hsdns: {self._not_yet[word]}; remove it'
        if known := about_directive(word):
            return known
        if lexeme.text == "{":
            return 'expected a directive, found "{"; write the directive before its "{" on the same line'
        message = f'unknown directive "{word}"'
        if word != lexeme.text:
            message += f' (from "{lexeme.text}")'
        if word.endswith("{") and word[:-1] in self._known:
            return f'{message}; put a space before the "{{"'
        if word.startswith("}"):
            return f'{message}; put a space after the "}}"'
        above = before[-1].args[-1] if before and before[-1].args else None
        if above is not None and len(above.text) > 1 and above.text.endswith("{"):
            return f'{message}; put a space before the "{{" of "{above.text}" at {above.position}'
        hint = did_you_mean(word.lower(), {*self._known, *self._not_yet})
        if hint or not ("." in word or ":" in word):
            return message + hint
        if braced:
            return f'{message}; if it is a zone, the "}}" of the server block above is missing'
        return f"{message}; if it is a zone, put braces around each server block or a comma after the keys above"

    def _never_closed(self, opening: Lexeme, owner: str, words: Sequence[Lexeme]) -> CorefileError:
        message = f'the "{{" of {owner} is never closed; add a "}}" on a line of its own'
        if self._stream.unclosed_quote is not None:
            message += f", or close the quote at {self._stream.unclosed_quote.position}"
        else:
            glued = next(
                (
                    word
                    for word in words
                    if len(word.text) > 1 and word.text.endswith("}") and "{" not in word.text
                ),
                None,
            )
            if glued is not None:
                message += (
                    f', or put a space before the brace of "{glued.text}" at {glued.position}'
                )
        return opening.position.error(message)


def _is_snippet(key: str) -> bool:
    return len(key) > 1 and key.startswith("(") and key.endswith(")")


def _add_words(sha512: hashlib._Hash, kind: str, words: Sequence[Token]) -> None:
    # Each word is preceded by its length, so that different trees never give the same bytes.
    sha512.update(f"{kind} {len(words)}\n".encode())
    for word in words:
        text = word.text.encode("utf-8", "surrogatepass")
        sha512.update(f"{len(text)}:".encode() + text)


class CorefileFiles(Files):
    """Remembers a digest of each file and glob that was read since start() was called."""

    def __init__(self, disk: Files = DISK) -> None:
        self._disk = disk
        self._files: dict[str, bytes] = {}
        self._globs: dict[str, Sequence[str]] = {}

    def start(self) -> None:
        """Forget the files of the previous parse."""
        self._files, self._globs = {}, {}

    def open_file(self, path: str) -> str | Source:
        """Read a file for the parser; raise OSError or ValueError."""
        try:
            text = self._disk.open_file(path)
        except (OSError, ValueError) as error:
            self._files[path] = str(error).encode()
            raise
        self._files[path] = _digest(text)
        return text

    def list_files(self, pattern: str) -> Sequence[str]:
        """List the files of a glob for the parser."""
        found = self._globs[pattern] = self._disk.list_files(pattern)
        return found

    def have_changed(self) -> bool:
        """Read all files again; return whether the parser would receive anything else."""
        return any(
            list(self._disk.list_files(pattern)) != list(found)
            for pattern, found in self._globs.items()
        ) or any(self._digest_of(path) != digest for path, digest in self._files.items())

    def _digest_of(self, path: str) -> bytes:
        try:
            return _digest(self._disk.open_file(path))
        except (OSError, ValueError) as error:
            return str(error).encode()


def _digest(text: str | Source) -> bytes:
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).digest()
