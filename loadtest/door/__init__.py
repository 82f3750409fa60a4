"""The cost of the control door: a hit with it and without, and the latency of other clients while it explains.

measure -> the command line, the table
"""
