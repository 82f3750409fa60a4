"""Recordings: what happened in a cluster and what was asked, with times, in one file; and what replays it.

docs/record.md describes the format.
"""
