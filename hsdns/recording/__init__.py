"""Recordings: the changes of a cluster and the queries of a server, with times, in one file; and their replay.

docs/contributing/recording.md describes the format.
"""
