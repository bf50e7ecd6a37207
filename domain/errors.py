"""Every error of Dayflow, in one tree.

DayflowError
├── Refused        the caller's input is at fault; the message says what to do next
│   ├── BadRequest      the input of a run
│   ├── BadSetting      a variable of the environment
│   └── NotFound        no such run, agent, step
├── Unreachable    a part that is needed does not answer
├── ToolFailed     the model should know: becomes an `is_error` result
├── ArgumentsChanged    the same idempotency key with other arguments
├── Again          the destination is busy or out of reach; the same key may be sent again
├── Uncertain      it may or may not have happened
├── IntentHeld     another action holds the same intent
├── Lost           a stored payload is missing or altered
├── MissingKey     something is encrypted under a key that is not here
├── NotSealed      what should be encrypted is not, or was changed
└── Broken         the record contradicts itself (digest, transcript); a person has to look
"""

from domain.tool import Conflict


class DayflowError(Exception):
    """Base of all errors that Dayflow raises on purpose."""


class Refused(DayflowError):
    """The caller's input is at fault."""


class BadRequest(Refused):
    """The input of a run cannot be used."""


class BadSetting(Refused):
    """A variable of the environment cannot be used."""

    def __init__(self, variable: str, why: str) -> None:
        self.variable = variable
        super().__init__(f"{variable}: {why}. Set it right, or unset it; `dayflow doctor` lists every setting.")


class NotFound(Refused):
    """What was named does not exist."""


class Unreachable(DayflowError):
    """A part that is needed does not answer."""


class ToolFailed(DayflowError):
    """A tool could not do what was asked, and the model should know why."""


class ArgumentsChanged(DayflowError):
    """An idempotency key came back with other arguments than it was begun with."""


class Again(DayflowError):
    """The destination is busy or out of reach; the same key may be sent again."""


class Uncertain(DayflowError):
    """It may or may not have happened."""


class IntentHeld(DayflowError):
    """Another action holds the same intent; `conflict` says which."""

    def __init__(self, conflict: Conflict) -> None:
        self.conflict = conflict
        super().__init__(f"{conflict.run_id} holds the same intent by its action {conflict.action_id}")


class Lost(DayflowError):
    """A stored payload is missing or altered; what needs it goes on once it is back."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"stored payload {name[:12]} {why}. Put it back from a backup, or set DAYFLOW_PAYLOADS to the folder that "
            "has it; what waits for it goes on by itself then."
        )


class MissingKey(DayflowError):
    """Something is encrypted under a key that is not here."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(
            f"the encryption key {key_id!r} is missing, and this was encrypted under it. "
            "Add it to DAYFLOW_ENCRYPTION_KEYS, after the key that is to encrypt."
        )


class NotSealed(DayflowError):
    """What should be encrypted is not, or was changed."""


class Broken(DayflowError):
    """The record contradicts itself."""
