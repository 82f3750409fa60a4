"""`hsdns doctor`: what makes names fail in a cluster.

cli.py      the command: reads a cluster, or a dump, and finds names that fail and what the rules find
report.py   its output: sections for a screen, or JSON
against.py  `--against`: how its Services differ from those of another
servers.py  what the DNS servers of the cluster answer, beside what is right
"""
