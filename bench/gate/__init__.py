"""The performance gate: load on a schedule, a receiver that checks everything, PASS or FAIL.

`python -m bench.gate` (`make gate`) starts a whole RVQ on this machine and runs bench/locustfile.py on it.
"""
