"""`python -m loadtest.apiserver`: the fake API server as a process; control.py says what it understands.

Path: loadtest/watch/fake_api_process.py starts it.
"""

from loadtest.apiserver.control import main

main()
