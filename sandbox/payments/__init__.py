"""The payment provider's stand-in: charges that can be refunded, over real HTTP, as Stripe documents its API.

`mount` is what the sandbox's application imports; nothing else is meant for others.
"""

from sandbox.payments.routes import mount as mount
