"""web3.py as a client: web3_client.py http|ws URL. Prints what it saw, a word a line, and `ok`.

Over WebSocket web3.py sends its JSON in binary messages unless told otherwise, and it is not told.
"""

import asyncio
import logging
import sys

from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3, WebSocketProvider
from web3.exceptions import Web3RPCError

from foreign import TIMEOUT, ok, same

CHAIN, BLOCK, BALANCE, GAS_PRICE = 0x7A69, 0x10, 0xDE0B6B3A7640000, 0x3B9ACA00
ADDRESS = "0x" + "00" * 19 + "01"

logging.disable()


def seen(word):
    print(f"seen {word}", flush=True)


async def calls(w3):
    """50 calls at once, each with its own answer."""
    kinds = [
        (lambda: w3.eth.chain_id, CHAIN), (lambda: w3.eth.block_number, BLOCK),
        (lambda: w3.eth.get_balance(ADDRESS), BALANCE), (lambda: w3.eth.gas_price, GAS_PRICE),
        (lambda: w3.eth.accounts, []),
    ]
    asked = [kinds[n % len(kinds)] for n in range(50)]
    answers = await asyncio.gather(*(ask() for ask, _ in asked))
    same(answers, [wanted for _, wanted in asked])
    seen("fifty")


async def error(w3):
    try:
        await w3.eth.get_block("latest")
    except Web3RPCError as refused:
        same(refused.rpc_response["error"]["code"], -32601)
    else:
        raise AssertionError("a method that nobody serves had a result")
    seen("error")


async def batch(w3):
    async with w3.batch_requests() as requests:
        requests.add(w3.eth.get_balance(ADDRESS))
        requests.add(w3.eth.get_balance(ADDRESS))
        same(await requests.async_execute(), [BALANCE, BALANCE])
    seen("batch")


async def subscription(w3):
    subscription_id = await w3.eth.subscribe("newHeads")
    numbers = []
    async for event in w3.socket.process_subscriptions():
        same(event["subscription"], subscription_id)
        numbers.append(int(event["result"]["number"]))
        if len(numbers) == 3:
            break
    same(numbers, [0x11, 0x12, 0x13])
    same(await w3.eth.unsubscribe(subscription_id), True)
    seen("subscription")


def blocking(url):
    """Its client without asyncio keeps a connection of its own."""
    w3 = Web3(HTTPProvider(url))
    same([w3.eth.chain_id, w3.eth.block_number], [CHAIN, BLOCK])
    seen("blocking")


async def over_http(url):
    await asyncio.to_thread(blocking, url)
    provider = AsyncHTTPProvider(url)
    w3 = AsyncWeb3(provider)
    for step in (calls, error, batch):
        await step(w3)
    await provider.disconnect()


async def over_websocket(url):
    async with AsyncWeb3(WebSocketProvider(url)) as w3:
        for step in (subscription, calls, error, batch):
            await step(w3)


async def work():
    kind, url = sys.argv[1:]
    await asyncio.wait_for({"http": over_http, "ws": over_websocket}[kind](url), TIMEOUT)
    ok()


asyncio.run(work())
