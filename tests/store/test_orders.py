"""The shop's record has the sample data once, whoever asks first."""

import asyncio

from sqlalchemy import func, insert, select

from store.orders import Orders
from store.schema import customers, orders


async def test_the_samples_are_put_in_once(store):
    await asyncio.gather(*(Orders(store, "default").ensure_samples() for _ in range(10)))

    async with store.reading() as connection:
        counted = [
            (await connection.execute(select(func.count()).select_from(each))).scalar() for each in (orders, customers)
        ]
    assert counted == [6, 4]


async def test_an_order_and_its_customer(store):
    shop = Orders(store, "default")
    await shop.ensure_samples()

    order = await shop.order("1042")
    customer = await shop.customer("cus_sample_oconnor")

    assert (order.amount, order.currency, order.charge) == (5990, "EUR", "ch_sample_1042")
    assert sum(item.price * item.quantity for item in order.items) == order.amount
    assert order.placed_at.isoformat() == "2026-11-18T09:12:00+00:00"
    assert (customer.name, customer.orders) == ("Seán Ó Conchúir", ["1041", "1039"])
    assert await shop.order("1") is None
    assert await shop.customer("nobody") is None


async def test_namespaces_do_not_see_each_other(store):
    await Orders(store, "one").ensure_samples()

    assert await Orders(store, "two").order("1042") is None


async def test_a_shop_of_its_own_gets_no_samples(store):
    mine = {"namespace": "default", "id": "c1", "name": "N", "email": "n@example.com", "since": "2026-01-01"}
    async with store.transaction() as connection:
        await connection.execute(insert(customers).values(**mine))

    await Orders(store, "default").ensure_samples()

    assert await Orders(store, "default").order("1042") is None
