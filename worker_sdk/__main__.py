"""`python -m worker_sdk module:Class` is `rvq-worker module:Class`."""

from ._cli import main

if __name__ == "__main__":
    main()
