"""The edges of the program: sockets, clocks, signals and tasks.  Nothing else owns query sockets.

Path: step 1 (read) and step 7 (write).  The packages inside get the time and the octets as arguments.
"""
