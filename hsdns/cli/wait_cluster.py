"""The right answer to one question, from the objects of a cluster that changes.

Path: cli/wait.py -> here -> load_cluster.py (the watch), load/verify/truth.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hsdns.cli.offline import configure
from hsdns.corefile.tree import Token
from hsdns.load.cli.cluster import LoadCluster
from hsdns.load.questions import Question, Questions
from hsdns.load.verify.judge import Answer
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.name import Name


@contextmanager
def expecting(
    conf: object,
    objects: tuple[Token, ...] | None,
    qname: Name,
    qtype: int,
    *,
    runs_code: bool = True,
) -> Iterator[Callable[[], Answer | None]]:
    """Watch a cluster, and yield what returns the answer now; raise CorefileError, CannotTell, LoadError or OSError."""

    def choose(blocks: Sequence[Kubernetes]) -> Questions:
        return Questions([Question(qname, qtype, "waited for")])

    configuration, _ = configure(conf, objects, runs_code=runs_code)
    with LoadCluster(configuration, choose, verifies=True) as cluster:
        truth = cluster.truth
        assert truth is not None, "it verifies"

        yield lambda: truth.latest(0)
