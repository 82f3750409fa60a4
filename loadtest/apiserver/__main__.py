"""`python -m loadtest.apiserver`: the fake API server as a process; control.py describes its requests.

Path: loadtest/watch/fake_api_process.py starts it.
"""

from loadtest.apiserver.control import main

main()
