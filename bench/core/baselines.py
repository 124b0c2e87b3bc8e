"""A task's life is measured beside the same rows written plainly, and beside a bare queue."""

from __future__ import annotations

from pathlib import Path

from bench.core.scripts import LEASES, PAYLOAD, RESULT, URL

BARE_QUEUE = Path(__file__).with_name("bare.sql").read_text()
PLAIN_ROWS = """
DROP SCHEMA IF EXISTS plain CASCADE;
CREATE SCHEMA plain;
CREATE TABLE plain.tasks (id bigint PRIMARY KEY, created_at timestamptz NOT NULL, status text NOT NULL,
    metadata text, webhook_url text, finished_at timestamptz);
CREATE TABLE plain.sub_tasks (id bigint PRIMARY KEY, queued_at timestamptz NOT NULL, status text NOT NULL,
    attempt int NOT NULL, payload text NOT NULL, lease_token uuid, lease_expires_at timestamptz, result text);
CREATE INDEX ON plain.sub_tasks (queued_at, id) WHERE status = 'queued';
CREATE TABLE plain.events (id bigint PRIMARY KEY, body text NOT NULL);
"""


def plain_life(sub_tasks: int) -> str:
    """Return a script that writes the rows of `life` by primary key, a statement each, in three transactions.

    No counters, no fence, no fan-in, no order of claims: the least that any implementation has to write.
    """
    numbers = range(1, sub_tasks + 1)
    inserts = (
        f"INSERT INTO plain.sub_tasks VALUES (:id::bigint + {n}, clock_timestamp(), 'queued', 0,"
        f" '{PAYLOAD}');\n"
        for n in numbers
    )
    claims = (
        "UPDATE plain.sub_tasks SET status = 'claimed', attempt = attempt + 1,"
        " lease_token = gen_random_uuid(), lease_expires_at = clock_timestamp() + interval '60 s'"
        f" WHERE id = :id::bigint + {n};\n"
        for n in numbers
    )
    completes = (
        f"UPDATE plain.sub_tasks SET status = 'succeeded', result = '{RESULT}'"
        f" WHERE id = :id::bigint + {n};\n"
        for n in numbers
    )
    task = (
        f"INSERT INTO plain.tasks VALUES (:id, clock_timestamp(), 'running', '{{\"order\": 1}}', '{URL}');\n"
    )
    end = (
        "UPDATE plain.tasks SET status = 'succeeded', finished_at = clock_timestamp() WHERE id = :id;\n"
        "INSERT INTO plain.events VALUES (:id, repeat('x', 300));\n"
    )
    next_id = "\\set turn :turn + 1\n\\set id (:client_id * 1000000 + :turn) * 16384\n"
    steps = (task + "".join(inserts), "".join(claims), "".join(completes) + end)
    return next_id + "".join(f"BEGIN;\n{step}END;\n" for step in steps)


def bare_life(sub_tasks: int) -> str:
    """Return a task's life in the bare queue, in as many calls and transactions as `scripts.life`."""
    payloads = f"array_fill('{PAYLOAD}'::text, ARRAY[{sub_tasks}])"
    return (
        f"SELECT bare.create_task({payloads}, '{URL}', '{{\"order\": 1}}');\n"
        f"SELECT {LEASES} FROM bare.claim('worker-1', {sub_tasks}) \\gset\n"
        f"SELECT bare.complete(:ids::bigint[], :tokens::uuid[], '{RESULT}');\n"
    )
