"""The command line of `python -m loadtest.demo`.

Path: here -> demo.py.
"""

import sys

from loadtest.demo.demo import main
from loadtest.process import run_benchmark

sys.exit(run_benchmark(main))
