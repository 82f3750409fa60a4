"""The control door: what can be read of a server while it runs, over HTTP.

routes.py has all paths; docs/openapi.yaml describes them.
"""
