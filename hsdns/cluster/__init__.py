"""What the cluster consists of, as far as DNS sees it, and how objects become records.

The second path: source (events) -> store (one packed value a Service) -> schema (records, at the first question).
"""
