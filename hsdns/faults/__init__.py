"""Faults on purpose: rules that say which queries get a wrong, late or no reply.

selector.py says which queries, flow.py those of new and known five-tuples; action.py what becomes of their replies.
rule.py is both with a seed, a lifetime and counts; rules.py the set that stands; words.py reads the text of a rule;
possible.py finds those that can never match; handler.py is their place in the chain.
"""
