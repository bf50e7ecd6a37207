"""The payment provider's stand-in: charges that can be refunded, over real HTTP, as Stripe documents its API.

`mount` and `SAMPLES` are what the sandbox's application imports; nothing else is meant for others.
"""

from sandbox.payments.provider import SAMPLES as SAMPLES
from sandbox.payments.routes import mount as mount
