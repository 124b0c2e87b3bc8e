"""The gate's locustfile with a user that can't start."""

from bench.locustfile import Claim, Complete, GateUser

__all__ = ["Claim", "Complete", "Create"]


class Create(GateUser):
    stream_name = "no such stream"
