"""Deliberate faults: rules by which some queries get a wrong reply, a late reply or none.

selector.py selects queries, also by their five-tuple; action.py changes their replies, acts on connections or on the
process, state.py on the state of the cluster.  rules.py combines selectors and action with a seed, a lifetime and
counts, and is the set of active rules; words.py reads the text of a rule; dry_run.py finds rules that can never match,
and applies one to past queries; handler.py applies rules in the chain.
"""
