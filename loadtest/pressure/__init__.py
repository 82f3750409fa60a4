"""hsdns and CoreDNS under attack: the effect on honest clients, on events, on CPU time and memory.

cli -> run: for each row of rows.py, each server in turn (server.py)
    clients.py: attackers (asker.c, doh_attack.py, silent.py, `hsdns load`) and honest clients, as processes
    judge.py: changes in the cluster, and every answer compared with the true state
    probes.py: /health and TCP
results -> goals, report: verdicts and tables
soak: all of it at once, for long
"""
