"""From a Service behind which nothing stands back to what a person can change.

Path: explanation/, failing.py -> here -> Cause.
Rule: one step after another, Service -> ports -> EndpointSlices -> pods -> workload; the first that is wrong is the
      cause.
"""

from __future__ import annotations

from hsdns.causes.cause import Cause
from hsdns.causes.view import View
from hsdns.cluster.objects import Service, ServicePort


def cause_behind(view: View, service: Service, port: ServicePort | None = None) -> Cause | None:
    """Why nothing stands behind a Service, or behind one port of it; None if something does."""
    return None
