"""Two files for the tutorial: a bank's trades, and what its custodian reports of them.

The same trades under other names, formats and roundings, with differences of the kinds that people
look for: trades that one side lacks, a wrong quantity, an amount at a wrong rate, rounded fees.
"""

import csv
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

TRADES, SEED = 240, 7
CURRENCIES = ("EUR", "USD", "JPY", "CHF")
SECURITIES = ("ALPHA AG", "Beta plc", "Gamma SE", "Delta Corp", "Épsilon SA")
ONLY_CUSTODIAN = {"T000231", "T000232"}
ONLY_BANK = {"T000017", "T000101", "T000198"}
WRONG_QUANTITY, WRONG_RATE = "T000042", "T000077"
CUSTODIAN_COLUMNS = (
    *("Ref", "Trade Date", "Instrument", "Ccy"),
    *("Qty", "Px", "Gross Amount", "Charges"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """One trade, as the bank has it."""

    trade_id: str
    booked_on: date
    security: str
    currency: str
    quantity: int
    price: Decimal
    amount: Decimal
    fee: Decimal


def main() -> int:
    """Write trades.csv and custodian.csv to the folder of the first argument, or here."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    trades = list(draw_trades())
    write_trades(folder / "trades.csv", trades)
    write_custodian(folder / "custodian.csv", trades)
    return 0


def draw_trades() -> Iterator[Trade]:
    """The same trades every time."""
    draw = random.Random(SEED)  # noqa: S311 - example data
    for number in range(1, TRADES + 1):
        quantity = draw.randrange(10, 5_000, 10)
        price = Decimal(draw.randrange(500, 90_000)) / 100
        yield Trade(
            trade_id=f"T{number:06}",
            booked_on=date(2026, 3, 2) + timedelta(days=number // 12),
            security=draw.choice(SECURITIES),
            currency=draw.choice(CURRENCIES),
            quantity=quantity,
            price=price,
            amount=quantity * price,
            fee=(quantity * price * Decimal("0.00125")).quantize(Decimal("0.0001")),
        )


def write_trades(path: Path, trades: Sequence[Trade]) -> None:
    """UTF-8, commas, ISO dates, fees of four digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Trade.__slots__)
        for trade in trades:
            if trade.trade_id not in ONLY_CUSTODIAN:
                writer.writerow([getattr(trade, name) for name in Trade.__slots__])


def write_custodian(path: Path, trades: Sequence[Trade]) -> None:
    """Windows-1252, semicolons, German numbers and dates, an order of its own, a line of totals."""
    rows = [trade for trade in trades if trade.trade_id not in ONLY_BANK]
    random.Random(SEED).shuffle(rows)  # noqa: S311 - example data
    total = sum((trade.amount for trade in rows), Decimal(0))
    with path.open("w", newline="", encoding="cp1252") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(CUSTODIAN_COLUMNS)
        writer.writerows(map(reported, rows))
        writer.writerow(["Total", "", "", "", "", "", german(total), ""])


def reported(trade: Trade) -> list[str]:
    """A trade as the custodian writes it, two of them wrongly."""
    quantity = trade.quantity - (100 if trade.trade_id == WRONG_QUANTITY else 0)
    amount = trade.amount * (Decimal("1.1") if trade.trade_id == WRONG_RATE else 1)
    day = trade.booked_on.strftime("%d.%m.%Y")
    texts = [trade.trade_id, day, trade.security.upper(), trade.currency, str(quantity)]
    return [*texts, *map(german, (trade.price, amount, trade.fee))]


def german(amount: Decimal) -> str:
    """`1.234,50`, rounded to two digits."""
    return f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))


if __name__ == "__main__":
    raise SystemExit(main())
