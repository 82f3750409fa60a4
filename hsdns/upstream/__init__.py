"""Other DNS servers, asked: where they are, how they are reached, and whether they are well.

Path: plugins/forward.py picks an upstream and asks it; plugins/loop.py asks this very server.  The only owner of client
sockets.
"""
