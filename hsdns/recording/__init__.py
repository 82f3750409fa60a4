"""Recordings: the changes of a cluster and the queries of a server, with times, in one file; and their replay.

docs/record.md describes the format.
"""
