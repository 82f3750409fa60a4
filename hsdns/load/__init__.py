"""Load tests of a DNS server, and a judge of whether the answers were right.

Path: cli/load.py -> run.py: the schedule and the questions go to a process that only sends and receives (sender.py);
what it reports is counted (results.py), judged against the cluster (truth.py, judge.py) and written down (report.py).
Rule 1: the schedule is made first, and a latency runs from the planned time: what is sent late has waited.
Rule 2: no mean anywhere; a lost query is slower than any answered one.
Rule 3: schedule, questions, counting, judging and reports have no socket and no clock: times are arguments.
"""
