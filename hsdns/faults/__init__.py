"""Deliberate faults: rules by which some queries get a wrong reply, a late reply or none.

selector.py selects queries, flow.py by their five-tuple; action.py changes their replies.  connection.py and process.py
have actions on connections and on the process, state.py on the state of the cluster.  rule.py combines selectors and
action with a seed, a lifetime and counts; rules.py is the set of active rules; words.py reads the text of a rule;
possible.py finds rules that can never match; dry_run.py applies a rule to past queries; handler.py applies rules in the
chain.
"""
