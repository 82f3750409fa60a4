"""The edges: sockets, clocks, signals, tasks.  The only owner of query sockets.

Path: step 1 (read) and step 7 (write).  Everything inside is told the time and handed bytes.
"""
