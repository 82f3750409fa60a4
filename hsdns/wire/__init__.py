"""RFC 1035 bytes to values and back, for exactly what a cluster's DNS server meets.

Path: steps 3 (decode) and 6 (encode).  Nothing here imports the rest of hsdns, opens a socket or reads a clock.
"""
