"""Faults on purpose: rules that say which queries get a wrong, late or no reply.

selector.py says which queries, flow.py those of new and known five-tuples; action.py what becomes of their replies.
connection.py and process.py have the actions that are about no query.  rule.py is both with a seed, a lifetime and
counts; rules.py the set that stands; words.py reads the text of a rule; possible.py finds those that can never match;
dry_run.py tries one on queries of the past; handler.py is their place in the chain.
"""
