"""The present activity of the server: /v1/top.

Each module computes one part of the picture; picture.py combines them; docs/openapi.yaml describes it.
"""
