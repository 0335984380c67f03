"""jsonrpc-websocket takes publications as notifications: jsonrpc_websocket_topics.py URL

A method whose name has dots is an attribute of an attribute in it, to call and to serve.
"""

import asyncio
import sys

from jsonrpc_websocket import Server

QUOTE = {"symbol": "AAPL", "price": 150.25, "timestamp": "2026-01-15T10:30:00Z"}


async def work(url):
    server, told = Server(url, timeout=10), asyncio.Queue()
    # A notification's params by name are the function's arguments by name.
    server.rpc.notification = lambda topic, data: told.put_nowait((topic, data))
    await server.ws_connect()
    assert await server.rpc.subscribe(topic="stock.prices.*") == {"subscribed": True}
    assert await server.publish("stock.prices.AAPL", QUOTE) == 1
    assert await asyncio.wait_for(told.get(), 10) == ("stock.prices.AAPL", QUOTE)
    for n in range(50):
        assert await server.publish("stock.prices.N", n) == 1
    for n in range(50):
        assert await asyncio.wait_for(told.get(), 10) == ("stock.prices.N", n)
    assert await server.rpc.unsubscribe("stock.prices.*") == {"unsubscribed": True}
    assert await server.publish("stock.prices.AAPL", QUOTE) == 0
    await server.close()
    assert told.empty()


asyncio.run(asyncio.wait_for(work(sys.argv[1]), 25))
print("ok")
