"""The state of a Kubernetes cluster as far as DNS needs it, and the records that are computed from it.

Path of a change: source -> store.py, which replaces a packed value (services.py, Pods in store.py).
Path of a query: answer.py -> lookup.py -> schema.py, which makes the records of a value at the first query for them.
"""
