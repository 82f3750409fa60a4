"""Asks DNS servers, as the client of a command or a test: one question, or a whole lookup of a resolver model.

question.py  one question over UDP, and over TCP if the reply is truncated
lookup.py    the sockets of a resolver model's lookup, on an event loop
"""
