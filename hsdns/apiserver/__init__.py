"""Client of the Kubernetes API server: access, transport, decoding, list and watch.

Path: access (server and credentials) -> client (bytes) -> watch_event (objects) -> reflector (state machine of list and
watch) -> watcher (its loop) -> sources/api_server.py.
"""
