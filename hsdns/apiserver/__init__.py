"""The API server as a source: who it is, how it is asked, and what its lists and watches mean.

Path: access (whom to ask, and as whom) -> client (bytes) -> watch_event (objects) -> reflector (what to ask next, what
is gone) -> watcher (the loop around it) -> sources/api_server.py.
"""
