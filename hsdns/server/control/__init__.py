"""The control API: the HTTP API for inspecting the running server.

routes.py has all paths; docs/openapi.yaml describes them.
"""
