"""web3.py follows the blocks of a server: web3_heads.py URL"""

import asyncio
import logging
import sys

from web3 import AsyncWeb3, WebSocketProvider
from web3.utils.subscriptions import NewHeadsSubscription

logging.disable()


def check(heads):
    assert len(heads) >= 12, heads
    for before, head in zip(heads, heads[1:]):
        assert head["number"] == before["number"] + 1, f"{before['number']}, then {head['number']}"
        assert head["parentHash"] == before["hash"] and head["timestamp"] == before["timestamp"] + 1


async def stream(w3):
    """One subscription, whose events its program reads as a stream."""
    ident, heads = await w3.eth.subscribe("newHeads"), []
    async for event in w3.socket.process_subscriptions():
        assert event["subscription"] == ident
        heads.append(event["result"])
        if len(heads) == 15:
            break
    check(heads)
    assert await w3.eth.unsubscribe(ident)
    block = await w3.eth.get_block(heads[3]["number"])
    assert block["hash"] == heads[3]["hash"]
    print("seen stream")


async def handlers(w3):
    """Two subscriptions with handlers, whose manager unsubscribes them."""
    taken = {"first": [], "second": []}

    async def take(context):
        heads = taken[context.label]
        heads.append(context.result)
        if len(heads) == 12:
            assert await context.subscription.unsubscribe()
    await w3.subscription_manager.subscribe([
        NewHeadsSubscription(label=label, handler=take, handler_context={"label": label}) for label in taken])
    await w3.subscription_manager.handle_subscriptions()
    for heads in taken.values():
        check(heads)
    print("seen handlers")


async def work():
    # A connection each: after a stream was unsubscribed, a manager stops its handlers at once.
    for part in (stream, handlers):
        async with AsyncWeb3(WebSocketProvider(sys.argv[1])) as w3:
            await part(w3)
    print("ok")


asyncio.run(asyncio.wait_for(work(), 25))
