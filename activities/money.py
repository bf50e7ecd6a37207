"""Money: whole numbers of a currency's smallest unit, and the decimals that people and models read."""

import re
from decimal import Decimal

# As the payment provider counts; see docs.stripe.com/currencies. All others have two.
NO_DECIMALS = re.compile("BIF|CLP|DJF|GNF|JPY|KMF|KRW|MGA|PYG|RWF|VND|VUV|XAF|XOF|XPF")
THREE_DECIMALS = re.compile("BHD|JOD|KWD|OMR|TND")


def decimals(currency: str) -> int:
    """How many decimals an amount in this currency has."""
    code = currency.upper()
    if NO_DECIMALS.fullmatch(code):
        return 0
    return 3 if THREE_DECIMALS.fullmatch(code) else 2


def text(minor: int, currency: str) -> str:
    """5990 EUR is "59.90", 8400 JPY is "8400"."""
    return f"{Decimal(minor).scaleb(-decimals(currency)):f}"


def minor(amount: str, currency: str) -> int:
    """For EUR "59.90" is 5990; a ValueError says what is wrong with it."""
    places = decimals(currency)
    if len(amount.partition(".")[2]) > places:
        shown = f"{places} decimals" if places else "no decimals"
        raise ValueError(f"{currency.upper()} has {shown}, {amount!r} has more")
    return int(Decimal(amount).scaleb(places))
