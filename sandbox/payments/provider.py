"""The provider: what a request for a refund comes to, once, and the files that it is remembered by."""

import asyncio
import secrets
import time
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.payments import form, wanted
from sandbox.payments.book import Book, Refund, samples
from sandbox.payments.errors import ApiError, invalid
from sandbox.payments.faults import Faults, Late, Stored
from sandbox.payments.keys import LONGEST, Answer, Keys, Record, refused
from sandbox.payments.lines import Lines
from sandbox.payments.wanted import Wanted

SAMPLES = Path(__file__).resolve().parent.parent / "samples" / "orders.json"
REFUNDS = "/v1/refunds"


@dataclass(frozen=True)
class Asked:
    """One request for a refund that was found right. words: what a fault may be meant for."""

    key: str | None
    fingerprint: str
    wanted: Wanted
    request_id: str
    words: str


class Provider:
    """Charges, refunds and keys of one home.

    `payments.jsonl` has a line for each refund that was committed. What else is remembered, errors under a key and the
    clock, stands in `payments-memory.jsonl`.
    """

    def __init__(self, folder: Path, orders: Path = SAMPLES) -> None:
        self.book = Book(samples(orders))
        self.keys = Keys()
        self.faults = Faults()
        self.journal = Lines(folder / "payments.jsonl")
        self.offset = 0.0
        self._memory = Lines(folder / "payments-memory.jsonl")
        self._going: set[asyncio.Task[Answer]] = set()
        self._restore()

    def now(self) -> float:
        """The provider's time, in seconds since the epoch."""
        return time.time() + self.offset

    async def refund(self, key: str | None, parameters: form.Parameters, request_id: str) -> Answer:
        """The answer to a request for a refund: the first one of its key, if there is one."""
        if key and len(key) > LONGEST:
            raise invalid(f"Idempotency keys have up to {LONGEST} characters.")
        fingerprint = form.fingerprint(REFUNDS, parameters)
        if key and (known := self.keys.find(key, fingerprint, self.now())):
            return replace(known, replayed=True)
        words = " ".join([key or "", *parameters.values()])
        asked = Asked(key, fingerprint, wanted.read(parameters, self.book), request_id, words)
        if key:
            self.keys.begin(key, fingerprint, self.now())
        # A client that goes away stops nothing that has begun.
        return await asyncio.shield(self._start(self._execute(asked)))

    def set_clock(self, offset: float | None, lifetime: float | None) -> None:
        """Shift the clock, change how long keys live; both outlast a restart."""
        self.offset = self.offset if offset is None else offset
        self.keys.lifetime = self.keys.lifetime if lifetime is None else lifetime
        self._memory.append({"event": "clock", "offset_s": self.offset, "key_lifetime_s": self.keys.lifetime})

    async def close(self) -> None:
        """End what is still going on, as a kill would, and close the files."""
        for task in self._going:
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
        self.journal.close()
        self._memory.close()

    def _start(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        task = asyncio.create_task(work)
        self._going.add(task)
        task.add_done_callback(self._going.discard)
        return task

    async def _execute(self, asked: Asked) -> Answer:
        """Carry it out, and remember the answer before it is given."""
        fault = self.faults.take("execution", "refund", asked.words)
        try:
            if isinstance(fault, Late):
                await asyncio.sleep(fault.seconds)
            answer = self._settle(asked, fault if isinstance(fault, Stored) else None)
        except BaseException:
            if asked.key:
                self.keys.forget(asked.key)
            raise
        if asked.key:
            self.keys.end(asked.key, answer)
        return answer

    def _settle(self, asked: Asked, fault: Stored | None) -> Answer:
        told = refused(fault.error(), asked.request_id) if fault else None
        if fault and told and not fault.commit:
            return self._remember(asked, told)
        try:
            amount = asked.wanted.settled()
        except ApiError as error:
            return self._remember(asked, refused(error, asked.request_id))
        return self._commit(asked, amount, told)

    def _commit(self, asked: Asked, amount: int, told: Answer | None) -> Answer:
        """Make the refund: it is made when its line is on the disk."""
        refund = _refund(asked.wanted, amount, self.now())
        facts = {name: value for name, value in asdict(refund).items() if name != "id"}
        line = {"refund_id": refund.id, **facts, **self._facts(asked), "answered": asdict(told) if told else None}
        self.journal.append(line)
        self.book.add(refund)
        return told or Answer(200, refund.shape(), asked.request_id)

    def _remember(self, asked: Asked, answer: Answer) -> Answer:
        if asked.key:
            self._memory.append({"event": "answer", **self._facts(asked), "answered": asdict(answer)})
        return answer

    def _facts(self, asked: Asked) -> dict[str, Any]:
        return {
            "idempotency_key": asked.key,
            "at": _written(self.now()),
            "request_id": asked.request_id,
            "fingerprint": asked.fingerprint,
        }

    def _restore(self) -> None:
        """Build the state anew from the files, in the order in which it came to be."""
        memory = list(self._memory.read())
        for line in memory:
            if line["event"] == "clock":
                self.offset, self.keys.lifetime = line["offset_s"], line["key_lifetime_s"]
        answers = [line for line in memory if line["event"] == "answer"]
        for line in sorted([*self.journal.read(), *answers], key=lambda line: datetime.fromisoformat(line["at"])):
            answer = Answer(**line["answered"]) if line["answered"] else None
            if "refund_id" in line:
                refund = _read_refund(line)
                self.book.add(refund)
                answer = answer or Answer(200, refund.shape(), line["request_id"])
            if answer and line["idempotency_key"]:
                at = datetime.fromisoformat(line["at"]).timestamp()
                self.keys.restore(line["idempotency_key"], Record(line["fingerprint"], at, answer))


def _refund(asked: Wanted, amount: int, now: float) -> Refund:
    charge = asked.charge
    return Refund(
        id="re_" + secrets.token_hex(12),
        charge=charge.id,
        payment_intent=charge.payment_intent,
        amount=amount,
        currency=charge.currency,
        reason=asked.reason,
        metadata=asked.metadata,
        created=int(now),
    )


def _read_refund(line: dict[str, Any]) -> Refund:
    names = ("charge", "payment_intent", "amount", "currency", "reason", "metadata", "created")
    return Refund(id=line["refund_id"], **{name: line[name] for name in names})


def _written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
