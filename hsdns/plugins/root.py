"""Sets the directory for relative file paths.

Path: beside the queries; assemble.py sets Block.root from it before the other plugins of the block are set up.
Source: CoreDNS 1.14.7 plugin/root.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Self

from hsdns.corefile.properties import no_body
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin


class Root(Plugin):
    """Holds the directory."""

    def __init__(self, root_folder: str) -> None:
        self.root_folder = root_folder

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `root PATH`, of which the last takes effect; warn of a missing directory, it may be created later."""
        for directive in directives:
            no_body(directive)
            if len(directive.args) != 1:
                raise directive.error(
                    f'"root" takes one directory, found {len(directive.args)} arguments'
                )
        token = directives[-1].args[0]
        try:
            os.stat(token.text)
        except FileNotFoundError:
            block.warn(
                f"{token.position}: root directory {token.text} does not exist; relative paths still refer to it"
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise token.error(f'cannot access root directory "{token.text}": {reason}') from error
        return cls(token.text)
