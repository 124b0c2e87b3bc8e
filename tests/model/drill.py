"""The machine with one more step, of several chosen evenly: what one comes to only by a long way."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.model.machine import END_OF_TIME, QUEUES, Machine

# Each of them waits first, where there is something to wait for.
STEPS = (
    "create",
    "create",
    "claim",
    "claim",
    "report",
    "succeeded",
    "final",
    "fail",
    "end",
    "promote",
    "promote",
)
MORE_STEPS = (
    "expire",
    "expire",
    "reopen",
    "reopen",
    "send",
    "send in vain",
    "lose",
    "resend",
    "give back",
    "beat",
    "cancel",
)


class DrilledMachine(Machine):
    """Hypothesis favours small values and leaves some rules out of each example; this evens it out."""

    @rule(seed=st.integers(0, 2**32))
    def drill(self, seed: int) -> None:
        chance = random.Random(f"{seed} {self.model.now}")
        for step in chance.choices(STEPS + MORE_STEPS, k=6):
            self._drill(step, chance)
            self.everything_is_the_same()

    def _drill(self, step: str, chance: random.Random) -> None:
        if step == "create":
            self._create_any(chance)
        elif step == "claim":
            self.claim("w", chance.randint(1, 4), 100, QUEUES)
        elif step == "report" and self.granted:
            self.complete("v", [(chance.randrange(30), "succeeded")], None, False)
        elif step in ("succeeded", "final", "fail"):
            self.work("w", QUEUES, "retry" if step == "fail" else step)
        elif step in ("give back", "beat") and self.granted:
            self.hold(step == "give back", [chance.randrange(30) for _ in range(3)], 100)
        elif step == "cancel":
            self.administer("cancel", chance.randrange(12))
        elif step == "reopen":
            self.administer("retry", 1 + 3 * chance.randrange(5))
        elif step in ("end", "promote", "expire"):
            self._wait(step)
            self.maintain(step)
        elif step in ("send", "send in vain", "lose", "resend"):
            self._send(step, chance)

    def _create_any(self, chance: random.Random) -> None:
        attempts = [chance.randint(1, 3) for _ in range(chance.randint(1, 4))]
        policy = chance.choice(["all", "fail_fast", "at_least"])
        deadline, start = chance.choice([None, None, 50, 500]), chance.choice([None, None, 30])
        shape = (chance.choice(QUEUES), attempts, policy, chance.randint(1, 4), deadline, start)
        self.create((*shape, chance.random() < 0.5, (None, b"")))

    def _wait(self, step: str) -> None:
        tasks, sub_tasks = self.model.tasks.values(), self.model.sub_tasks.values()
        if step == "end":
            self._wait_until(task.deadline_at for task in tasks if task.open)
        elif step == "promote":
            self._wait_until(sub_task.due_at for sub_task in sub_tasks)
        else:
            self._wait_until(sub_task.lease_until for sub_task in sub_tasks)

    def _wait_until(self, moments: Iterable[int | tuple[int, int] | None]) -> None:
        """The first of these, if there is one before the end of time."""
        first = min((moment for moment in moments if isinstance(moment, int)), default=0)
        self.model.now = max(self.model.now, min(first, END_OF_TIME))

    def _send(self, step: str, chance: random.Random) -> None:
        self.deliver(0, "claim")
        if step == "lose":
            self.deliver(0, "wait and expire")
        elif step == "resend":
            self.deliver(chance.randrange(20), "redeliver")
        else:
            self.deliver(chance.randrange(3), "delivered" if step == "send" else "dead")
