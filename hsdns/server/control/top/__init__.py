"""What goes on in the server at this moment: /v1/top.

Each module makes one part of the picture that picture.py puts together; docs/openapi.yaml describes it.
"""
