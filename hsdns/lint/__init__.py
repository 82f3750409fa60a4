"""`hsdns lint` and `hsdns rule`: what the rules find in files.

cli.py       the command: which files are read, output, repairs
drift.py     `--against`: how two sides differ; of doctor too
istioctl.py  what istioctl finds; of doctor too
rule.py      `hsdns rule`, and the silences of a file
"""
