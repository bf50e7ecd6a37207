"""The shop's orders and customers, as its own record has them."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.schema import customers, orders
from store.settings import SAMPLES

ORDERS_SHOWN = 50


class Item(BaseModel):
    """One line of an order; the price is for one piece, in the smallest unit of the order's currency."""

    model_config = ConfigDict(frozen=True)

    name: str
    quantity: int
    price: int
    note: str | None = None


class Order(BaseModel):
    """One order. amount: what it came to, in the smallest unit of the currency. charge: its payment, if it was paid."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: str
    customer_id: str
    status: str
    currency: str
    amount: int
    charge: str | None
    items: list[Item]
    placed_at: datetime


class Customer(BaseModel):
    """One customer, and the newest of their orders, by id."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    email: str
    since: str
    orders: list[str]


class Orders:
    """The orders and the customers of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def order(self, order_id: str) -> Order | None:
        """The order of this id."""
        mine = (orders.c.namespace == self._namespace) & (orders.c.id == order_id)
        async with self._database.reading() as connection:
            row = (await connection.execute(select(orders).where(mine))).one_or_none()
        return Order.model_validate(row) if row else None

    async def customer(self, customer_id: str) -> Customer | None:
        """The customer of this id, with their newest orders first."""
        mine = (customers.c.namespace == self._namespace) & (customers.c.id == customer_id)
        theirs = (orders.c.namespace == self._namespace) & (orders.c.customer_id == customer_id)
        newest = select(orders.c.id).where(theirs).order_by(orders.c.placed_at.desc(), orders.c.id).limit(ORDERS_SHOWN)
        async with self._database.reading() as connection:
            row = (await connection.execute(select(customers).where(mine))).mappings().one_or_none()
            ids = (await connection.execute(newest)).scalars().all()
        return Customer(**row, orders=list(ids)) if row else None

    async def ensure_samples(self, samples: Path = SAMPLES / "orders.json") -> None:
        """Put the sample data into a namespace that has no customer; one that has any is left as it is."""
        async with self._database.reading() as connection:
            if await self._any(connection):
                return
        async with self._database.transaction(f"samples\n{self._namespace}") as connection:
            if not await self._any(connection):
                await self._insert(connection, _read(samples))

    async def _any(self, connection: AsyncConnection) -> bool:
        mine = select(customers.c.id).where(customers.c.namespace == self._namespace).limit(1)
        return (await connection.execute(mine)).first() is not None

    async def _insert(self, connection: AsyncConnection, samples: dict[str, list[dict[str, Any]]]) -> None:
        for each in samples["customers"]:
            await connection.execute(insert(customers).values(namespace=self._namespace, **each))
        for each in samples["orders"]:
            order = Order.model_validate(each)
            await connection.execute(insert(orders).values(namespace=self._namespace, **order.model_dump()))


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text("utf-8"))
    return found
