"""`-config FILE` of `hsdns lint` and `hsdns doctor`: the file of silences.

Path: cli/lint.py, cli/doctor.py -> here -> rules/silence.py.
Rule: the default is .hsdns.yaml in the working directory, if it exists.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hsdns.cli.command import flag
from hsdns.cli.flags import FlagError

if TYPE_CHECKING:
    from hsdns.rules.silence import SilencePattern

NAME: Final = ".hsdns.yaml"
FLAG: Final = flag(f"file of silences (default: {NAME} in the working folder)", "FILE")


def read_silences(config: str | None) -> tuple[str, list[SilencePattern]]:
    """The path of the file, empty if there is none, and its entries; raise FlagError."""
    from hsdns.rules.silence import read_silence_file

    path = NAME if config is None else config
    try:
        with open(path, "rb") as file:
            return path, read_silence_file(path, file.read())
    except FileNotFoundError:
        if config is None:
            return "", []
        raise FlagError(f"-config {path}: there is no such file; correct the path") from None
    except OSError as error:
        raise FlagError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise FlagError(str(error)) from None


def is_everything(paths: Sequence[str], path: str) -> bool:
    """Whether the paths include the folder of the file, so that everything it can apply to is checked."""
    folder = os.path.dirname(os.path.realpath(path))
    tops = [os.path.realpath(each) for each in paths if os.path.isdir(each)]
    return any(folder == top or folder.startswith(os.path.join(top, "")) for top in tops)
