"""`python -m loadtest.apiserver`: the fake API server as a process; control.py describes its requests.

Path: loadtest/watch/api_servers.py starts it.
"""

from loadtest.apiserver.control import main

main()
