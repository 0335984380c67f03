"""The MCP Python SDK's client over HTTP against the example mcp_http: mcp_http_client.py URL. Prints how many checks
were made."""

import asyncio
import sys

from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client

checks = 0


def same(got, wanted):
    global checks
    assert got == wanted, f"{got!r} instead of {wanted!r}"
    checks += 1


async def work(url):
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        shaken = await session.initialize()
        same((shaken.protocolVersion, shaken.serverInfo.name), ("2025-11-25", "antiphon-example"))
        await session.send_ping()
        same([tool.name for tool in (await session.list_tools()).tools], ["add"])
        same((await session.call_tool("add", {"a": 2, "b": 40})).content[0].text, "42")
        same((await session.call_tool("add", {"a": "x"})).isError, True)
        try:
            await session.call_tool("rm", {})
        except McpError as error:
            same(error.error.code, -32602)
        heard = []

        async def on_progress(progress, total, _message):
            heard.append((progress, total))

        last = await session.call_tool("add", {"a": 1, "b": 2}, progress_callback=on_progress)
        same((heard, float(last.content[0].text)), ([(1, 2)], 3.0))
        sums = await asyncio.gather(*(session.call_tool("add", {"a": i, "b": 0.5}) for i in range(20)))
        same([float(one.content[0].text) for one in sums], [i + 0.5 for i in range(20)])


asyncio.run(asyncio.wait_for(work(sys.argv[1]), 25))
print("ok", checks)
