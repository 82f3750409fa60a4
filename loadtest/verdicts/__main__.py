"""The command line of `python -m loadtest.verdicts`.

Path: here -> measure.py.
"""

import sys

from loadtest.process import run_benchmark
from loadtest.verdicts.measure import main

sys.exit(run_benchmark(main))
