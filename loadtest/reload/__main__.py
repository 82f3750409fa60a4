"""The command line of `python -m loadtest.reload`.

Path: here -> measure.py.
"""

import sys

from loadtest.reload.measure import main

sys.exit(main())
