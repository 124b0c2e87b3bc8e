"""The SQL functions are measured straight on PostgreSQL by pgbench: the queue without HTTP and Python.

    python -m bench.core --list
    python -m bench.core --scenario history --scenario backlog --size 0.01

Every figure is compared within one run: the variants of a scenario alternate, at least five times, and
medians are compared. Absolute figures are this machine's. Results go to bench/results/core*.
"""
