"""Fault scenarios: known DNS failures, each as a file that can be run again.

    files/*.toml      the scenarios: description, cluster, rules on a timeline, expected results
    scenario.py       reads a scenario
    memory_server.py  a server in memory, with the events of its objects, its upstream and its active rules
    play.py           a whole scenario for one client -> its effect, with time that advances only when all tasks wait
    page.py           clients and scenarios as a table, and the pages of the documentation

See docs/fault-scenarios/index.md.  The Markdown files of tests/scenarios/ are unrelated: they are tests of the server's
replies.
"""
