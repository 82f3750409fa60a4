"""hsdns and CoreDNS under attack: what becomes of honest clients, of events, of CPU time and memory.

cli -> run: for each row of rows.py, each server in turn (server.py, corefile.py)
    clients.py: what presses (asker.c, doh_attack.py, silent.py, `hsdns load`) and what asks honestly, as processes
    judge.py, history.py: changes in the cluster, and every answer against what was true; probes.py: /health and TCP
results -> goals, report: verdicts and tables
soak: all of it at once, for long
"""
