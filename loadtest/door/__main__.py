"""The command line of `python -m loadtest.door`.

Path: here -> measure.py.
"""

import sys

from loadtest.door.measure import main
from loadtest.process import run_benchmark

sys.exit(run_benchmark(main))
