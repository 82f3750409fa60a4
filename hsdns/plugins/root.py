"""Say in which folder the files of a block are looked for.

Path: beside it; assemble.py reads it before the block's other plugins are set up and puts it into Block.root.
Source: CoreDNS 1.14.7 plugin/root.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar, Self

from hsdns.corefile.properties import no_body
from hsdns.corefile.tree import CorefileError, Directive
from hsdns.plugin import Block, Plugin


class Root(Plugin):
    """The folder of relative paths."""

    name: ClassVar[str] = "root"

    def __init__(self, root_folder: str) -> None:
        self.root_folder = root_folder

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `root PATH`, the last one counts; a folder that is not there is only a warning, it may come later."""
        for directive in directives:
            no_body(directive)
            if len(directive.args) != 1:
                raise CorefileError(
                    directive.name.position,
                    f'"root" takes one folder, found {len(directive.args)} arguments',
                )
        token = directives[-1].args[0]
        try:
            os.stat(token.text)
        except FileNotFoundError:
            block.warn(
                f"{token.position}: root folder {token.text} does not exist; files are looked for there all the same"
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CorefileError(
                token.position, f'cannot look at root folder "{token.text}": {reason}'
            ) from error
        return cls(token.text)
