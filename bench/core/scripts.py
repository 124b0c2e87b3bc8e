"""Scripts for pgbench are put together from the three calls of a sub_task's life."""

from __future__ import annotations

PAYLOAD = '{"text": "some small payload of a hundred bytes or so, which is what many real ones look like"}'
RESULT = '{"words": 14}'
LEASES = "coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(lease_token), '{}') AS tokens"
URL, HOST = "https://hooks.partner.example/x", "hooks.partner.example"


def create_call(sub_tasks: int, *, webhook: bool, tasks: int = 1) -> str:
    """Return the call that creates `tasks` of `sub_tasks` each."""

    def each(value: str, count: int = tasks) -> str:
        return f"array_fill({value}, ARRAY[{count}])"

    url, host = (f"'{URL}'::text", f"'{HOST}'::text") if webhook else ("NULL::text", "NULL::text")
    arrays = (
        each("'default'::text"),
        each(str(sub_tasks)),
        each(f"'{PAYLOAD}'::text", tasks * sub_tasks),
        each("5", tasks * sub_tasks),
        each("'{\"order\": 1}'::text"),
        each(url),
        each(host),
        each("NULL::timestamptz"),
        each("'all'::text"),
        *(each(f"NULL::{kind}") for kind in ("integer", "float8", "text", "bytea")),
    )
    return f"rvq.create_tasks({', '.join(arrays)})"


def create(sub_tasks: int, *, webhook: bool = True, tasks: int = 1) -> str:
    return f"SELECT outcome FROM {create_call(sub_tasks, webhook=webhook, tasks=tasks)};\n"


def create_many(tasks: int, sub_tasks: int) -> str:
    """Return one statement that creates `tasks`, by a call in its select list for every row."""
    call = create_call(sub_tasks, webhook=False)
    return f"SELECT count(c) FROM (SELECT {call} AS c FROM generate_series(1, {tasks}) OFFSET 0) AS created"


def claim(limit: int) -> str:
    """Claim up to `limit`; leave their ids and lease tokens for `complete`."""
    call = f"rvq.claim_sub_tasks('{{worker-1}}', '{{{limit}}}', 60, ARRAY['default'])"
    return f"SELECT {LEASES} FROM {call} \\gset\n"


def complete() -> str:
    """Report success of what the `claim` before it got."""

    def each(value: str) -> str:
        return f"array_fill({value}, number)"

    values = ("true", f"'{RESULT}'::text", "NULL::text", "NULL::boolean", "NULL::float8")
    arrays = ", ".join((each("'worker-1'::text"), "ids", "tokens", *map(each, values)))
    ids, tokens = ":ids::bigint[]", ":tokens::uuid[]"
    claimed = f"SELECT {ids} AS ids, {tokens} AS tokens, ARRAY[cardinality({ids})] AS number"
    return f"SELECT rvq.complete_sub_tasks({arrays}) FROM ({claimed}) AS claimed;\n"


def life(sub_tasks: int) -> str:
    """Return a whole task's life in one pgbench transaction: create, claim as many, complete them."""
    return create(sub_tasks) + claim(sub_tasks) + complete()


def drain(limit: int) -> str:
    return claim(limit) + complete()


def deliver(limit: int) -> str:
    """Claim up to `limit` deliveries of one host and record that they were delivered."""
    columns = (
        *("id", "lease_token", "'delivered'::text", "NULL::float8", "0.01::float8", "'delivered'::text"),
        *("200", "'{}'::text", "NULL::bytea"),
    )
    arrays = ", ".join(f"coalesce(array_agg({column}), '{{}}')" for column in columns)
    return f"SELECT rvq.settle_deliveries({arrays}) FROM rvq.claim_deliveries({limit}, 60, {limit});\n"


def steady(limit: int) -> str:
    """Let a client's transactions in turn create a task of `limit`, and claim and complete as many.

    The backlog stays as long as it was, and the log tells the two apart: the odd ones create.
    """
    return f"\\set turn 1 - :turn\n\\if :turn\n{create(limit, webhook=False)}\\else\n{drain(limit)}\\endif\n"
