"""What pyproject.toml cannot say: when the fast path is compiled, what a wheel claims, and the links of README.md.

Path: pip and build -> setuptools -> here, which reads the rest of the project from pyproject.toml.
Rule 1: the fast path is compiled where there is cargo, and left out without it.  HSDNS_NO_EXTENSIONS=1 leaves it out in
        any case, HSDNS_REQUIRE_EXTENSIONS=1 makes it an error if it cannot be compiled.
Rule 2: a wheel claims a platform only if it holds the compiled fast path; any other is py3-none-any.
Rule 3: README.md is also shown where the repository is not, so there its links lead to the tag of this version.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Final

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools_rust import Binding, RustExtension

HERE: Final = Path(__file__).resolve().parent
MODULE: Final = "hsdns.fastpath._native"
# The target of a Markdown link or image that is a path in the repository: no scheme, no anchor of the page itself.
PATH_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)\s]+)\)")


class Wheel(bdist_wheel):  # type: ignore[misc] # setuptools has no types
    """A wheel with the tags of what it holds."""

    def run(self) -> None:
        """Build first, because only then it is known whether the fast path could be compiled."""
        build = self.get_finalized_command("build")
        if not self.skip_build:
            # A library that an earlier build has left here would be packed too.
            shutil.rmtree(build.build_lib, ignore_errors=True)
            self.run_command("build")
        if not any(Path(build.build_lib).glob("hsdns/fastpath/_native*.so")):
            self.root_is_pure, self.py_limited_api = True, False
            self.distribution.has_ext_modules = lambda: False
        super().run()


def extensions() -> list[RustExtension]:
    """The fast path, unless it is not wanted."""
    if os.environ.get("HSDNS_NO_EXTENSIONS") == "1":
        return []
    return [
        RustExtension(
            MODULE,
            "native/Cargo.toml",
            binding=Binding.PyO3,
            args=["--locked"],
            optional=os.environ.get("HSDNS_REQUIRE_EXTENSIONS") != "1",
            py_limited_api=True,
            debug=False,  # an editable install would otherwise get a slow build
        )
    ]


def readme() -> str:
    """README.md with absolute links."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    version = re.search(r'^__version__ = "(.+)"$', (HERE / "hsdns/__init__.py").read_text(), re.M)
    assert version

    def absolute(link: re.Match[str]) -> str:
        view = "raw" if link["image"] else "blob"
        target = f"{project['urls']['Source']}/{view}/v{version[1]}/{link['path']}"
        return f"{link['image']}[{link['text']}]({target})"

    return PATH_LINK.sub(absolute, (HERE / "README.md").read_text())


setup(
    rust_extensions=extensions(),
    cmdclass={"bdist_wheel": Wheel},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
