"""`python -m loadtest.answering`.

Path: here -> cli.main.
"""

import sys

from loadtest.answering.cli import main
from loadtest.process import run_benchmark

sys.exit(run_benchmark(lambda: main(sys.argv[1:])))
