"""The command line of `python -m loadtest.generator`.

Path: here -> cli.py.
"""

import sys

from loadtest.generator.cli import main
from loadtest.process import run_benchmark

sys.exit(run_benchmark(main))
