"""A client of topics on websockets, without a JSON-RPC library: topics_client.py URL"""

import asyncio
import json
import sys

from websockets.asyncio.client import connect

SUBSCRIBE, BATCH = "rpc.subscribe", "rpc.subscribe.batch"
AAPL = "stock.prices.AAPL"
QUOTE = {"symbol": "AAPL", "price": 150.25, "timestamp": "2026-01-15T10:30:00Z"}


def publication(topic, data):
    return {"jsonrpc": "2.0", "method": "rpc.notification", "params": {"topic": topic, "data": data}}


async def hear(ws, wanted):
    got = json.loads(await asyncio.wait_for(ws.recv(), 10))
    assert json.dumps(got, sort_keys=True) == json.dumps(wanted, sort_keys=True), f"{got} instead of {wanted}"


async def ask(ws, method, params, **end):
    await ws.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": method}))
    await hear(ws, {"jsonrpc": "2.0", **end, "id": method})


async def work(url):
    async with connect(url) as publisher:
        async with connect(url) as ws:
            async def publish(topic, data, receivers):
                await ask(publisher, "publish", [topic, data], result=receivers)
                for _ in range(receivers):
                    await hear(ws, publication(topic, data))
            await ask(ws, SUBSCRIBE, {"topic": AAPL}, result={"subscribed": True})
            await publish(AAPL, QUOTE, 1)
            await publish("stock.prices.MSFT", QUOTE, 0)
            # Twice is once, and a pattern beside it brings no second copy.
            await ask(ws, SUBSCRIBE, [AAPL], result={"subscribed": True})
            await ask(ws, SUBSCRIBE, {"topic": "stock.*.AAPL"}, result={"subscribed": True})
            await publish(AAPL, None, 1)
            for topic, was in ((AAPL, True), (AAPL, False), ("stock.*.AAPL", True)):
                await ask(ws, "rpc.unsubscribe", {"topic": topic}, result={"unsubscribed": was})
            await publish(AAPL, QUOTE, 0)
            await ask(ws, BATCH, {"topics": ["events.*", "news.>"]}, result={"subscribed": ["events.*", "news.>"]})
            for topic, receivers in (("events.user", 1), ("events.user.login", 0), ("events", 0),
                                     ("news.a.b", 1), ("news.a", 1), ("news", 0), ("Events.user", 0)):
                await publish(topic, [topic, 1, "é€"], receivers)
            # One bad topic, and nothing is done.
            why = {"code": -32602, "message": "Invalid params", "data": "topics[1]: a token of the topic is empty"}
            await ask(ws, BATCH, {"topics": ["a", "b..c"]}, error=why)
            await publish("a", 1, 0)
            await ask(ws, "rpc.unsubscribe.batch", [["news.>", "a", "events.*"]],
                      result={"unsubscribed": ["news.>", "events.*"]})
            await publish("news.a", 1, 0)
            why = {**why, "data": "a publication has one topic, without wildcards"}
            await ask(publisher, "publish", ["a.*", 1], error=why)

asyncio.run(asyncio.wait_for(work(sys.argv[1]), 25))
print("ok")
