"""From a name that fails back to what a person can change: one sentence for a cause, in every tool.

Path: explanation/, rules/, doctor/, server/ and plugins/kubernetes (objects) -> view.py -> intended.py, behind.py,
labels.py -> Cause.

    view.py       the objects of a namespace or of a cluster, as one reads them for a cause
    intended.py   the names that the objects mean to exist
    behind.py     from a Service back to its pods, their workload, or the field that is wrong
    pod.py        why a pod is not ready
    ports.py      the ports of a Service that no endpoint has
    alias.py      why an ExternalName leads nowhere
    labels.py     the pods that a selector means, though it does not match them
    failing.py    all names that are not answered, or that lead nowhere
    cause.py      a cause: the sentence and what to do

Rule: what could not be read is "not known", and never a cause.
"""
