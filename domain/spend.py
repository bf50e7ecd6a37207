"""Spend: tokens as the API counts them, dollars by a dated price table.

A model without a price costs an unknown amount, which is `None` and never 0.
"""

from decimal import Decimal

from pydantic import BaseModel, ConfigDict

TOKENS_PER_UNIT = Decimal(1_000_000)
SANDBOX_MODEL = "dayflow-sandbox-1"


class Usage(BaseModel):
    """Tokens of one model call. The whole input is `input` + `cache_write` + `cache_read`."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})

    @property
    def prompt(self) -> int:
        """Tokens of the whole request, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total(self) -> int:
        """Every token that was counted."""
        return self.prompt + self.output_tokens


class Price(BaseModel):
    """Dollars per million tokens. `above` holds the dearer tier: (prompt tokens, its price) for the whole request."""

    model_config = ConfigDict(frozen=True)

    model: str
    since: str
    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    simulated: bool = False
    above: "tuple[int, Price] | None" = None

    def cost(self, usage: Usage) -> Decimal:
        """Dollars of one call."""
        if self.above and usage.prompt > self.above[0]:
            return self.above[1].cost(usage)
        writes_5m = usage.cache_write_tokens - usage.cache_write_1h_tokens
        return (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * self.cache_read
            + writes_5m * self.cache_write
            + usage.cache_write_1h_tokens * self.cache_write_1h
        ) / TOKENS_PER_UNIT

    def most(self, usage: Usage) -> Decimal:
        """Dollars of one call at the most: its input may have to be written into the cache."""
        written = Usage(cache_write_tokens=usage.prompt, output_tokens=usage.output_tokens)
        return max(self.cost(usage), self.cost(written))

    def saved(self, usage: Usage) -> Decimal:
        """Dollars that one call would have cost more without a prompt cache; below 0 if it only cost."""
        return self.cost(Usage(input_tokens=usage.prompt, output_tokens=usage.output_tokens)) - self.cost(usage)


def _price(model: str, since: str, *dollars: str, above: tuple[int, Price] | None = None) -> Price:
    names = ("input", "output", "cache_write", "cache_write_1h", "cache_read")
    rates = dict(zip(names, map(Decimal, dollars), strict=True))
    return Price(model=model, since=since, above=above, simulated=model == SANDBOX_MODEL, **rates)


# Read off the published list on 2026-11-29: input, output, cache write 5m and 1h, cache read.
PRICES = {
    price.model: price
    for price in (
        _price("claude-opus-5-5", "2026-11-29", "4", "20", "5", "8", "0.20"),
        _price("claude-opus-5", "2026-11-29", "5", "25", "6.25", "10", "0.50"),
        _price("claude-sonnet-5-5", "2026-10-07", "2", "10", "2.50", "4", "0.10"),
        _price("claude-sonnet-5", "2026-11-29", "2", "10", "2.50", "4", "0.20"),
        _price(
            "claude-haiku-5-5",
            "2026-11-29",
            *("0.10", "0.50", "0.125", "0.20", "0.01"),
            above=(
                100_000,
                _price("claude-haiku-5-5", "2026-11-29", "0.50", "2.50", "0.625", "1.00", "0.05"),
            ),
        ),
        _price("claude-haiku-4-5", "2026-11-29", "1", "5", "1.25", "2", "0.10"),
        _price(SANDBOX_MODEL, "2026-11-29", "1", "5", "1.25", "2", "0.10"),
    )
}


class PossiblyPaid(BaseModel):
    """Attempts that were sent and gave no answer: the provider may have charged them.

    usage: what they were seen to reach. held: what was reserved for them, which is what they count against the limits.
    """

    calls: int = 0
    usage: Usage = Usage()
    held: Usage = Usage()
    held_usd: Decimal = Decimal(0)

    def add(self, attempts: list[Usage], reserved: Usage, price: Price | None) -> None:
        """Count these attempts, each with the usage that it was seen to reach."""
        self.calls += len(attempts)
        for usage in attempts:
            self.usage += usage
            self.held += reserved
            self.held_usd += price.most(reserved) if price else 0


class Totals(BaseModel):
    """What a run has used so far. `cost_usd` is None once any call had no price; `saved_usd` is the cache's part."""

    usage: Usage = Usage()
    cost_usd: Decimal | None = Decimal(0)
    saved_usd: Decimal = Decimal(0)
    possibly_paid: PossiblyPaid = PossiblyPaid()

    def add(self, usage: Usage, price: Price | None) -> None:
        """Count one answered call."""
        self.usage += usage
        if self.cost_usd is not None:
            self.cost_usd = None if price is None else self.cost_usd + price.cost(usage)
        if price is not None:
            self.saved_usd += price.saved(usage)
