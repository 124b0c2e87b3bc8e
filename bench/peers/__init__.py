"""RVQ beside other task queues does the same work on the same PostgreSQL, in one run, in turns.

A way in: `systems` says what is compared and how each is used, `rounds` what is measured, `claims` what is
claimed. Each system is a `crew` of driver processes (`drivers/`, `node/`), which speak JSON lines with us.
The peers are no dependencies of RVQ: they have an environment of their own, made by `make peers`.
"""
