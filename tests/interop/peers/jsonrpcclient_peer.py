"""jsonrpcclient as a client over HTTP, with aiohttp: jsonrpcclient_peer.py URL POINTS…"""

import asyncio
import itertools
import sys

import aiohttp
from jsonrpcclient import Error, notification, parse, request

import foreign


class Client:
    ids = itertools.count(1)

    def __init__(self, session):
        self.session = session

    async def post(self, message):
        async with self.session.post(sys.argv[1], json=message) as reply:
            body = await reply.read()
            assert reply.status in (200, 202, 204), (reply.status, body)
            return await reply.json() if body else None

    async def call(self, method, params):
        params = params if isinstance(params, dict) else tuple(params)
        answer = parse(await self.post(request(method, params, id=next(self.ids))))
        if isinstance(answer, Error):
            raise foreign.Failed(answer.code, answer.message, answer.data)
        return answer.result

    async def notify(self, method, params):
        foreign.same(await self.post(notification(method, tuple(params))), None)

    async def batch(self, items):
        messages = [
            notification(item["method"], tuple(item["params"])) if item.get("notify")
            else request(item["method"], tuple(item["params"]), id=next(self.ids)) for item in items]
        answers = parse(await self.post(messages))
        return [answer if isinstance(answer, Error) else answer.result for answer in answers]


async def work():
    connector = aiohttp.TCPConnector(limit=100)
    async with aiohttp.ClientSession(connector=connector) as session:
        await foreign.drive(Client(session), sys.argv[2:])
    foreign.ok()


asyncio.run(work())
