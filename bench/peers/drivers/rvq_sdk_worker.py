"""RVQ's own SDK as the worker: a Handler that does nothing, claims and batched reports as they come.

python -m bench.peers.drivers.rvq_sdk_worker
"""

from __future__ import annotations

from bench.peers.drivers.lines import Tally, end_with_input, say_ready
from worker_sdk import Answer, Handler, SubTask, Worker, load_settings
from worker_sdk._transport import HTTPTransport

READ_SECONDS = 10.0


class Nothing(Handler):
    concurrency = 2
    prefetch = 1000
    poll_seconds = (0.005, 0.005)

    def handle(self, sub_task: SubTask) -> dict[str, bool]:
        return {"ok": bool(sub_task.payload)}


class Counted(HTTPTransport):
    """Counts what RVQ says is done."""

    tally: Tally

    def post(self, path: str, body: bytes) -> Answer:
        answer = super().post(path, body)
        if path.endswith("/complete"):
            self.tally.add(answer.body.count(b'"succeeded"'))
        return answer


if __name__ == "__main__":
    end_with_input()
    transport = Counted(load_settings(), READ_SECONDS)
    transport.tally = Tally()
    say_ready("rvq-worker-sdk")
    Worker(Nothing, transport=transport).run()
