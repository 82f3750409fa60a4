"""Fault scenarios: known DNS failures, each as a file that can be run again.

    files/*.toml     the scenarios: description, cluster, rules on a timeline, expected results
    scenario.py      reads a scenario
    cluster.py       its objects -> events, for a server in memory
    virtual_loop.py  an event loop whose time advances only when all tasks wait
    ahead.py         the upstream of a server in memory: another such server, or a real one
    memory_server.py a server in memory, with its active rules
    stage.py         the servers of a scenario: cluster server, node cache, and the server for correct answers
    client.py        a resolver model that looks up names there
    play.py          a whole scenario for one client -> its effect
    matrix.py        clients and scenarios as a table
    page.py          the pages of the documentation

See docs/fault-scenarios/index.md.  The Markdown files of tests/scenarios/ are unrelated: they are tests of the server's
replies.
"""
