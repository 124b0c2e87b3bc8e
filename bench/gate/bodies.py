"""Bodies of requests are like real ones: text payloads and results of 200 to 2 000 bytes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import msgspec

TEXT = "order invoice parcel height street number total north blue kilogram amount réf über 2026 €"
WORDS = TEXT.split()
VARIETY = 257  # bodies made in advance; prime, so that users do not keep step with them


def documents(sizes: tuple[int, int], seed: int) -> list[bytes]:
    """Return JSON objects whose sizes (bytes) are spread evenly; the same for the same seed."""
    chance = random.Random(seed)
    return [_document(chance, chance.randint(*sizes)) for _ in range(VARIETY)]


def create_bodies(sub_tasks: int, sizes: tuple[int, int], webhook_url: str) -> Iterator[bytes]:
    """Yield bodies of POST /v1/tasks, without end."""
    payloads = itertools.cycle(documents(sizes, seed=1))
    made = [_create_body([next(payloads) for _ in range(sub_tasks)], webhook_url, n) for n in range(VARIETY)]
    return itertools.cycle(made)


def claim_body(worker_id: str, limit: int) -> bytes:
    return msgspec.json.encode({"worker_id": worker_id, "limit": limit, "lease_seconds": 120})


def complete_body(worker_id: str, leases: Sequence[tuple[str, str]], results: Iterator[bytes]) -> bytes:
    """Report each of `leases`, (sub_task id, lease token) pairs, as succeeded with the next result."""
    reports = b",".join(
        b'{"id":"%b","lease_token":"%b","status":"succeeded","result":%b}'
        % (sub_task_id.encode(), token.encode(), next(results))
        for sub_task_id, token in leases
    )
    return b'{"worker_id":"%b","results":[%b]}' % (worker_id.encode(), reports)


def _create_body(payloads: Sequence[bytes], webhook_url: str, number: int) -> bytes:
    sub_tasks = b",".join(b'{"payload":%b}' % payload for payload in payloads)
    rest = b'"webhook_url":"%b","metadata":{"order":%d}' % (webhook_url.encode(), number)
    return b'{"sub_tasks":[%b],%b}' % (sub_tasks, rest)


def _document(chance: random.Random, size: int) -> bytes:
    """Return an object of exactly `size` bytes."""
    empty = msgspec.json.encode({"text": ""})
    text = " ".join(chance.choices(WORDS, k=size // 4)).encode()[: size - len(empty)]
    return empty[:-2] + text.decode(errors="ignore").encode().ljust(size - len(empty), b".") + b'"}'
