"""`python -m loadtest.watch`.

Path: here -> cli.main.
"""

import sys

from loadtest.process import run_benchmark
from loadtest.watch.cli import main

if __name__ == "__main__":
    sys.exit(run_benchmark(lambda: main(sys.argv[1:])))
