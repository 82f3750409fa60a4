"""Fault scenarios: DNS failures that people have met, each as a file that can be played again.

    files/*.toml     the scenarios: what it was, the cluster, the rules in time, what must be seen
    scenario.py      reads one
    cluster.py       its objects -> events, for a server in memory
    virtual_loop.py  an event loop whose time passes only where all wait
    ahead.py         what a server in memory asks: another one, or one that runs
    memory_server.py a server in memory, with the rules that stand
    stage.py         the servers of a scenario: of the cluster, a node cache, the truth
    client.py        a model of a resolver that looks names up there
    play.py          a whole scenario for one client -> what it has cost
    matrix.py        clients and scenarios as a table
    page.py          the pages of the documentation

docs/fault-scenarios/index.md has the whole of it.  The Markdown files of tests/scenarios/ are something else: tests of
what the server answers.
"""
