"""Puts the pages of Use first among the results of a search, then those of commands, and details last.

Path: mkdocs.yml -> here.
"""

from __future__ import annotations

from typing import Any

from mkdocs.structure.pages import Page

BY_FOLDER = {"": 4, "plugins": 1, "fault-scenarios": 1, "rules": 0.1, "contributing": 0.1}

# What people type who look for a page that has another title.
TOPICS = {
    "audit.md": ["stale answers"],
    "dashboard.md": ["dashboard", "browser"],
    "deploy.md": ["kind", "Helm", "kubectl", "minikube"],
    "faults.md": ["chaos", "delay", "drop", "timeout"],
    "lint.md": ["GitHub action", "pre-commit"],
    "load.md": ["benchmark", "latency", "p99", "QPS"],
    "node-local.md": ["DaemonSet", "nodelocaldns"],
    "record.md": ["record"],
    "resolve.md": ["Alpine", "musl", "ndots"],
    "sources.md": ["kubeconfig"],
    "start.md": ["Docker", "install", "pip"],
    "why.md": ["explain", "ExternalName", "headless", "NXDOMAIN", "search list", "SERVFAIL", "SRV"],
}


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> None:
    """Set the boost and the topics of a page."""
    source = page.file.src_uri
    is_use = any(section.title == "Use" for section in page.ancestors)
    boost = 8 if is_use else BY_FOLDER.get(source.rpartition("/")[0], 0.05)
    page.meta.update(search={"boost": boost}, tags=TOPICS.get(source, []))
