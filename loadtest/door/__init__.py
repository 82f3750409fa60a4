"""What the control door costs: a hit with it and without, and other clients while it explains.

measure -> the command line, the table
"""
