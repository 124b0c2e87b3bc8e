"""The gate's locustfile with one more listener, which raises."""

from bench.locustfile import Claim, Complete, Create, hooks

__all__ = ["Claim", "Complete", "Create"]


def fail(**_: object) -> None:
    raise RuntimeError("a listener that raises")


hooks.test_start.add_listener(fail)
