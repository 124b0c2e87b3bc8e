"""The systems by name, each as its own documentation says that it is fastest."""

from __future__ import annotations

from bench.peers.peer import in_postgres, node_command, node_is_missing, python_command, python_is_missing
from bench.peers.rvq import PLAIN_WORKER, SDK_WORKER, rvq
from bench.peers.system import System
from bench.peers.with_redis import celery, celery_is_missing

COUNTED_DOWN = "home-made: a row counts down in each handler, the last one enqueues the callback"


def nothing_is_missing() -> None:
    return None


RVQ = System(
    "rvq",
    "RVQ over HTTP",
    "Python",
    60_000,
    nothing_is_missing,
    rvq(PLAIN_WORKER),
    "tasks of 1 000 sub_tasks by 2 connections; 2 processes claim and complete up to 1 000 a request, by 2"
    " connections each",
    "built in: the last completion commits the event; a signed webhook is sent, received and verified",
    ours=True,
    single_calls=True,
)
SYSTEMS = (
    RVQ,
    System(
        "rvq-sdk",
        "RVQ with worker_sdk",
        "Python",
        10_000,
        nothing_is_missing,
        rvq(SDK_WORKER),
        "the same tasks; 2 processes run a Handler in 2 threads each, prefetch 1 000",
        "built in, as above",
        ours=True,
    ),
    System(
        "pgqueuer",
        "PgQueuer",
        "Python",
        60_000,
        python_is_missing,
        in_postgres("pgqueuer", python_command),
        "asyncpg; arrays of 1 000 enqueued; 2 processes with batch_size 500; completions logged in batches",
        COUNTED_DOWN,
    ),
    System(
        "procrastinate",
        "Procrastinate",
        "Python",
        3_000,
        python_is_missing,
        in_postgres("procrastinate", python_command),
        "batches of 1 000 deferred; 2 processes with concurrency 10; each is fetched and finished alone",
        COUNTED_DOWN,
    ),
    System(
        "celery",
        "Celery with Redis",
        "Python",
        5_000,
        celery_is_missing,
        celery,
        "a message each over one producer, ignore_result; 2 processes (solo) with a prefetch of 128",
        "built in: a chord, its results in Redis",
    ),
    System(
        "pgboss",
        "pg-boss",
        "Node",
        60_000,
        node_is_missing,
        in_postgres("pgboss", node_command),
        "arrays of 1 000 inserted; 2 processes fetch and complete arrays of 1 000",
        f"{COUNTED_DOWN}; here once a batch",
    ),
    System(
        "graphile",
        "Graphile Worker",
        "Node",
        60_000,
        node_is_missing,
        in_postgres("graphile", node_command),
        "add_jobs of 1 000; 2 processes, 24 at once, local queue of 500, completions in batches",
        COUNTED_DOWN,
    ),
)
