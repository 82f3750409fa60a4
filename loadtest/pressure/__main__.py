"""`python -m loadtest.pressure`.

Path: here -> cli.main.
"""

import sys

from loadtest.pressure.cli import main
from loadtest.process import run_benchmark

if __name__ == "__main__":
    sys.exit(run_benchmark(lambda: main(sys.argv[1:])))
