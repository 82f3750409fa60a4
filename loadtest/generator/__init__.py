"""What `hsdns load` costs and how punctual it is, beside dnsperf.

measure -> figures of one run; report -> the table
"""
