"""The command `hsdns load`: its flags, its cluster, and what it shows and writes.

Path: hsdns/cli -> load.py -> the rest of hsdns/load, which knows nothing of the command line.
"""
