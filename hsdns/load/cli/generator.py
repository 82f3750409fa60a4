"""The portion of the plan that this generator carries out, and its begin: -part, -start-at, -job.

Path: load.py -> here -> schedule.py, cluster/job.py.
Rule: several machines agree on the time of day, but a run uses the monotonic clock.  The time of day is read once.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns.load.errors import LoadError
from hsdns.load.schedule import Portion, read_start

if TYPE_CHECKING:
    from hsdns.load.cluster.job import Job, JobApi

AFTER_JOB: Final = "+60s"  # from the start of a Job, unless -start-at is given


class Generator(NamedTuple):
    """This generator; `begin` in nanoseconds of the monotonic clock, 0 for at once."""

    portion: Portion = Portion()
    begin: int = 0
    job: Job | None = None
    api: JobApi | None = None

    def put(self, report: bytes) -> str:
        """Write the report to the place for all pods of the Job; return where; raise LoadError."""
        assert self.job is not None, "the caller asks only then"
        assert self.api is not None, "a Job was read from there"
        name = self.api.put_report(self.job, self.portion.part, report)
        return f"the report is in the ConfigMap {name} of the namespace {self.api.namespace}"


def find_generator(portion: Portion, start_at: str, job: str) -> Generator:
    """Read this generator's settings from the flags or the Job; raise LoadError."""
    if not job:
        return Generator(portion, _monotonic(read_start(start_at, time.time())) if start_at else 0)
    from hsdns.load.cluster.job import read_index

    index = read_index(os.environ)
    api = _api()
    found = api.job(job, time.sleep)
    if index >= found.completions:
        raise LoadError(
            f"-job: the Job {job} has {found.completions} completions, and no index {index}"
        )
    start = read_start(start_at or AFTER_JOB, time.time(), found.started)
    return Generator(Portion(index, found.completions), _monotonic(start), found, api)


def _monotonic(start: float) -> int:
    """A time in seconds since 1970 on the monotonic clock, in nanoseconds."""
    return time.monotonic_ns() + round((start - time.time()) * 1e9)


def _api() -> JobApi:
    from hsdns.apiserver.access import InCluster
    from hsdns.load.cluster.job import JobApi, read_namespace

    source = InCluster(os.environ, time.monotonic, lambda message: None)
    for sentence in source.check():
        raise LoadError(f"-job: {sentence}")
    return JobApi(source, read_namespace())
