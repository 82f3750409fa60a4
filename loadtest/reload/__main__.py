"""The command line of `python -m loadtest.reload`.

Path: here -> measure.py.
"""

import sys

from loadtest.process import run_benchmark
from loadtest.reload.measure import main

sys.exit(run_benchmark(main))
