"""hsdns and CoreDNS under attack: the effect on honest clients, on events, on CPU time and memory.

__main__ -> run: for each row of rows.py, each server in turn (server.py)
    clients: attackers (asker.c, attackers.py, `hsdns load`) and honest clients, as processes; probes of /health and TCP
    judge: changes in the cluster, and every answer compared with the true state
    machine: its own delays, and priorities
results: limits and tables
soak -> soak_result: all of it at once, for long
"""
