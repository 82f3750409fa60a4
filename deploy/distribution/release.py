"""The version in all files that name it, the notes of a release, the plugin for krew, and a dry run of all of it.

    python deploy/distribution/release.py set VERSION            writes the version into each file of PLACES
    python deploy/distribution/release.py check                  names each file that has another version
    python deploy/distribution/release.py notes TAG REPOSITORY   prints the notes of the release
    python deploy/distribution/release.py krew FOLDER            packs kubectl hsdns, and writes its krew manifest
    python deploy/distribution/release.py rehearse FOLDER        does all of it with a copy of the tree, uploads nothing

Path: RELEASING.md, .ci/run, the release workflow -> here -> files of the tree, the text and files of the release.
Rule 1: hsdns/__init__.py holds the version; all other files follow it.
Rule 2: nothing is published of a tag that is not the version, or from a repository that is not the one of
        pyproject.toml, because the packages link to that one.
Rule 3: the notes are the section of CHANGELOG.md; a change note that is still in changes/ would be missing there.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
HOLDS: Final = "hsdns/__init__.py"
VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:\.dev\d+|rc\d+)?")


class CannotRelease(Exception):
    """The tree is not what the tag says; the message says what to do."""


# --- the version and where it stands ---


def plain(version: str, found: str) -> str:
    """As in a Python package: 0.2.0.dev0.  An image has this tag."""
    return version


def semantic(version: str, found: str) -> str:
    """As Helm, npm, Maven and krew demand it: 0.2.0-dev.0."""
    return re.sub(r"\.?(dev|rc)(\d+)$", r"-\1.\2", version)


def reference(version: str, found: str) -> str:
    """The tag of a final version; one in development has no tag, so the last one stays, or the branch."""
    return f"v{version}" if version.replace(".", "").isdigit() else found


class Place(NamedTuple):
    """Files that name the version, the expression whose only group it is, and how they spell it."""

    files: str
    pattern: str
    spell: Callable[[str, str], str]


IMAGE: Final = r"ghcr\.io/hsdns/hsdns:(\d[\w.-]*)"
PLACES: Final = (
    Place(HOLDS, r'^__version__ = "(.+)"$', plain),
    *(Place(files, IMAGE, plain) for files in ("*.md", "Dockerfile", "docs/**/*.md", "deploy/**/*")),
    Place("SECURITY.md", r"hsdns_server-(\d[\w.]*)-py3", plain),
    Place("deploy/**/kustomization.yaml", r"^  newTag: (.+)$", plain),
    Place("loadtest/kubernetes/kustomization.yaml", r"^  newTag: (.+)$", plain),
    Place("deploy/helm/hsdns/Chart.yaml", r"^version: (.+)$", semantic),
    Place("deploy/helm/hsdns/Chart.yaml", r"^appVersion: (.+)$", plain),
    Place("deploy/testcontainers/node/package.json", r'^  "version": "(.+)",$', semantic),
    Place("deploy/testcontainers/java/pom.xml", r"^  <version>(.+)</version>$", semantic),
    Place("docs/lint.md", r"uses: hsdns/hsdns@(.+)$", reference),
    Place("docs/lint.md", r"^    rev: (.+)$", reference),
)  # fmt: skip


def version_of(root: Path) -> str:
    """The version of a tree."""
    found = re.search(PLACES[0].pattern, (root / HOLDS).read_text(), re.M)
    return found[1] if found else ""


def rewritten(root: Path, version: str) -> Iterator[tuple[Path, str]]:
    """Each file that has another version, with the text that it should have; raise CannotRelease for an empty place."""
    texts: dict[Path, str] = {}
    for place in PLACES:
        seen = 0
        for path in sorted(root.glob(place.files)):
            if not path.is_file() or {"node_modules", "target", "__pycache__"} & {*path.parts}:
                continue
            before = texts.get(path, path.read_text())

            def renamed(
                found: re.Match[str], spell: Callable[[str, str], str] = place.spell
            ) -> str:
                return found[0].replace(found[1], spell(version, found[1]))

            texts[path], count = re.subn(place.pattern, renamed, before, flags=re.M)
            seen += count
        if not seen:
            raise CannotRelease(f"nothing in {place.files} matches {place.pattern}; mend PLACES")
    for path, text in texts.items():
        if path.read_text() != text:
            yield path, text


def set_version(root: Path, version: str) -> Iterator[str]:
    """Write a version into all files; yield a sentence for each; raise CannotRelease."""
    if not VERSION.fullmatch(version):
        raise CannotRelease(f"{version} is no version such as 0.2.0, 0.2.0rc1 or 0.3.0.dev0")
    for path, text in list(rewritten(root, version)):
        path.write_text(text)
        yield f"{path.relative_to(root)} has the version {version}"


def check(root: Path) -> Iterator[str]:
    """Yield a sentence if all files have one version; raise CannotRelease."""
    version = version_of(root)
    if different := [str(path.relative_to(root)) for path, _ in rewritten(root, version)]:
        raise CannotRelease(
            f"the version is {version}, but not in {', '.join(different)}; "
            f"run deploy/distribution/release.py set {version}"
        )
    yield f"all files have the version {version}"


# --- what is published ---


def notes(root: Path, tag: str, repository: str) -> str:
    """The section of CHANGELOG.md for a tag; raise CannotRelease."""
    version = version_of(root)
    if tag != f"v{version}":
        raise CannotRelease(f"the tag is {tag}, but hsdns/__init__.py has the version {version}")
    if source(root) != f"https://github.com/{repository}":
        raise CannotRelease(
            f"this is the repository {repository}, but the packages would link to {source(root)}; "
            "set [project.urls] of pyproject.toml"
        )
    waiting = sorted({path.name for path in (root / "changes").glob("*.md")} - {"README.md"})
    if waiting:
        raise CannotRelease(
            f"changes/{waiting[0]} is not in CHANGELOG.md yet; run .venv/bin/towncrier build --yes"
        )
    # Up to the next version; the sections of one version have a # more.
    pattern = rf"^## {re.escape(version)} \([-\d]+\)\n(.+?)(?=^## |\Z)"
    section = re.search(pattern, (root / "CHANGELOG.md").read_text(), re.M | re.S)
    if section is None:
        raise CannotRelease(f"CHANGELOG.md has no section {version}")
    return f"{section[1].strip()}\n"


def source(root: Path) -> str:
    """The address of the repository."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["urls"]["Source"])


# krew takes a plugin only with its licence.
PLUGIN: Final = {"kubectl-hsdns": "deploy/kubectl/kubectl-hsdns", "LICENSE": "LICENSE"}
MANIFEST: Final = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: hsdns
spec:
  version: v{version}
  homepage: {source}
  shortDescription: Explain why a name does not resolve
  description: |
    Runs the commands of hsdns in a pod of the cluster's DNS, which has to be
    hsdns: why a name has no answer and what to change, the names that the
    cluster has, and faults for tests.
  caveats: |
    The cluster's DNS has to be hsdns, and you need the right to run commands
    in its pods.
  platforms:
  - selector:
      matchExpressions:
      - key: os
        operator: In
        values: [darwin, linux]
    uri: {source}/releases/download/v{tag}/{archive}
    sha256: {digest}
    files:
    - from: kubectl-hsdns
      to: .
    - from: LICENSE
      to: .
    bin: kubectl-hsdns
"""


def krew(root: Path, folder: Path) -> Iterator[str]:
    """Make the archive of the kubectl plugin, the same octets each time, and hsdns.yaml, its krew manifest."""
    version = version_of(root)
    archive = folder / f"kubectl-hsdns-{version}.tar.gz"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, path in PLUGIN.items():
            entry, octets = tarfile.TarInfo(name), (root / path).read_bytes()
            entry.size, entry.mode = len(octets), 0o755 if name != "LICENSE" else 0o644
            tar.addfile(entry, io.BytesIO(octets))
    folder.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    manifest = MANIFEST.format(
        version=semantic(version, ""), tag=version, source=source(root), archive=archive.name,
        digest=hashlib.sha256(archive.read_bytes()).hexdigest(),
    )  # fmt: skip
    (folder / "hsdns.yaml").write_text(manifest)
    yield f"{archive.name} and hsdns.yaml, the manifest for krew-index, are in {folder}"


# --- the dry run ---


def copied(root: Path, folder: Path) -> None:
    """Copy what is or could be committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def rehearse(root: Path, folder: Path) -> Iterator[str]:
    """Release a copy of the tree as its next final version, up to the uploads; raise CannotRelease."""
    yield from check(root)
    version = re.sub(r"\.?(dev|rc)\d+$", "", version_of(root))
    with tempfile.TemporaryDirectory(prefix="hsdns-release-") as scratch:
        tree = Path(scratch)
        copied(root, tree)
        yield f"{len(list(set_version(tree, version)))} files have the version {version}"
        yield from check(tree)
        # What the person who releases folds and dates.
        for path in (tree / "changes").glob("*.md"):
            path.unlink(missing_ok=path.name == "README.md")
        changes = (tree / "CHANGELOG.md").read_text()
        dated = changes.replace(f"## {version} (unreleased)", f"## {version} (2026-01-02)")
        (tree / "CHANGELOG.md").write_text(dated)
        text = notes(tree, f"v{version}", source(tree).removeprefix("https://github.com/"))
        yield f"the notes have {len(text.splitlines())} lines"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "notes.md").write_text(text)
        build = "import sys; sys.path[:0] = ['deploy/distribution']; import build; build.build(build.Path(sys.argv[1]))"
        run(tree, sys.executable, "-c", build, str(folder.resolve()))
        yield from krew(tree, folder)
        if shutil.which("helm"):
            run(tree, "helm", "package", "deploy/helm/hsdns", "-d", str(folder.resolve()))
        else:
            yield "the chart is not packed: there is no helm"
        for path in sorted(folder.iterdir()):
            if version not in path.name and path.name not in ("notes.md", "hsdns.yaml"):
                raise CannotRelease(f"{path.name} is not of version {version}")
            yield f"{path.name}, {path.stat().st_size // 1000} kB"
    yield "nothing was uploaded; a tag would start .github/workflows/release.yml"


def run(root: Path, *words: str) -> None:
    """Run a program in a tree; raise CannotRelease with what it said."""
    environ = {**os.environ, "HSDNS_NO_EXTENSIONS": "1"}
    done = subprocess.run(
        words, cwd=root, check=False, text=True, env=environ,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        raise CannotRelease(f"{words[0]} ended with status {done.returncode}:\n{done.stdout}")


def main(words: Sequence[str]) -> int:
    """Do what the command says, return the exit status."""
    try:
        match words:
            case ["notes", tag, repository]:
                sys.stdout.write(notes(ROOT, tag, repository))
                return 0
            case ["set", version]:
                steps = set_version(ROOT, version)
            case ["check"]:
                steps = check(ROOT)
            case ["krew", folder]:
                steps = krew(ROOT, Path(folder))
            case ["rehearse", folder]:
                steps = rehearse(ROOT, Path(folder))
            case _:
                sys.stderr.write(f"{__doc__.partition('Path:')[0].rstrip()}\n" if __doc__ else "")
                return 2
        for sentence in steps:
            sys.stdout.write(f"release: {sentence}\n")
            sys.stdout.flush()
    except CannotRelease as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
