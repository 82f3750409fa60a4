"""Load tests of a DNS server; also judges whether its answers were right.

Path: cli/load.py -> run.py: the schedule and the questions go to a process that only sends and receives (send/);
its outcomes are counted (results.py), judged against the cluster (verify/) and reported (report.py).
Rule 1: the schedule is made first, and a latency is measured from the planned time, so it includes late sending.
Rule 2: nothing reports a mean; a lost query counts as slower than any answered one.
Rule 3: schedule, questions, counting, judging and reports have no socket and no clock: times are arguments.
"""
