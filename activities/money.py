"""Money: whole numbers of a currency's smallest unit, and the decimals that people and models read."""

from decimal import Decimal

# As the payment provider counts; see docs.stripe.com/currencies. All others have two.
NO_DECIMALS = frozenset("BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF".split())
THREE_DECIMALS = frozenset("BHD JOD KWD OMR TND".split())


def decimals(currency: str) -> int:
    """How many decimals an amount in this currency has."""
    code = currency.upper()
    if code in NO_DECIMALS:
        return 0
    return 3 if code in THREE_DECIMALS else 2


def text(minor: int, currency: str) -> str:
    """5990 EUR is "59.90", 8400 JPY is "8400"."""
    return f"{Decimal(minor).scaleb(-decimals(currency)):f}"


def minor(amount: str, currency: str) -> int:
    """"59.90" EUR is 5990; a ValueError says what is wrong with it."""
    places = decimals(currency)
    if len(amount.partition(".")[2]) > places:
        shown = f"{places} decimals" if places else "no decimals"
        raise ValueError(f"{currency.upper()} has {shown}, {amount!r} has more")
    return int(Decimal(amount).scaleb(places))
