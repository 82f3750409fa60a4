"""The command line of `python -m loadtest.demo`.

Path: here -> demo.py.
"""

import sys

from loadtest.demo.demo import main

sys.exit(main())
