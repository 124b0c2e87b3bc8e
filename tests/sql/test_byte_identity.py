"""Payloads, results, errors and metadata come back byte for byte, as whoever sent them wrote them."""

from __future__ import annotations

import pytest

from tests.sql.calls import URL, Calls, failure, success

DOCUMENTS = [
    '{"b":1,"a":2,"b":3}',
    "1.10",
    "1e2",
    "-0",
    "-0.0e-0",
    "9007199254740993",
    "123456789012345678901234567890.000000000000000000001",
    '  {\n\t"spaces" :  [ 1 , 2 ]  }\r\n',
    '"\\u00e9\\u0000\\ud83d\\ude00 é😀 \\/ / \u2028"',
    '"\\ud800"',
    "null",
    "true",
    "[]",
    "{}",
    '""',
    "[" * 500 + "]" * 500,
    '"' + "x" * 262_000 + '"',
    "\"it's $1 %s %(x)s \\\\ {0} ; -- /* ' \"",
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_every_document_comes_back_as_it_was_sent(rvq: Calls, document: str) -> None:
    task_id = rvq.create(payloads=[document, "0"], metadata=document, webhook=URL, max_attempts=1)
    assert rvq.task(task_id).metadata == document
    one, two = rvq.claim(2)
    assert one.payload == document
    rvq.complete(success(one, document), failure(two, error=document))
    first, second = rvq.sub_tasks(task_id)
    assert (first.payload, first.result, second.error) == (document, document, document)
    (delivery,) = rvq.claim_deliveries()
    assert f'"metadata":{document},"created_at"' in delivery.body
    assert rvq.value("SELECT body FROM rvq.events WHERE id = %s", (task_id,)) == delivery.body


def test_many_different_payloads_stay_with_their_own_sub_tasks(rvq: Calls) -> None:
    payloads = [f'{{"n":{n}, "n":{n}.0}}' for n in range(500)]
    task_id = rvq.create(payloads=payloads)
    assert [s.payload for s in rvq.sub_tasks(task_id)] == payloads
    assert [lease.payload for lease in rvq.claim(500)] == payloads


def test_results_stay_with_their_own_sub_tasks_in_a_shuffled_batch(rvq: Calls) -> None:
    task_id = rvq.create(300)
    leases = rvq.claim(300)
    order = [*leases[1::2], *reversed(leases[::2])]
    rvq.complete(*(success(lease, f'{{"of": {lease.payload}}}') for lease in order))
    assert [s.result for s in rvq.sub_tasks(task_id)] == [f'{{"of": {n}}}' for n in range(300)]


def test_a_retry_hands_out_the_same_bytes(rvq: Calls) -> None:
    rvq.create(payloads=[DOCUMENTS[0]])
    rvq.fail(rvq.claim_one(), retry_after=0)
    assert rvq.claim_one().payload == DOCUMENTS[0]
