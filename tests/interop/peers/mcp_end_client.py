"""The MCP Python SDK's client, which closes: mcp_end_client.py TOOL COMMAND

TOOL is one that runs until it is cancelled. The SDK ends the server's input, and sends a signal 2 s later.
"""

import asyncio
import sys
import time

import mcp.client.stdio as stdio
from mcp import ClientSession, StdioServerParameters, types

TIME_MAX = 3.0  # seconds
ENDLESS = {"progress": {"steps": 1000, "delayMs": 20}, "wait": {"milliseconds": 60000}}
checks = 0
processes = []
create_process = stdio._create_platform_compatible_process


def same(got, wanted):
    global checks
    assert got == wanted, f"{str(got)[:500]} instead of {str(wanted)[:500]}"
    checks += 1


async def create_and_keep(*words, **more):
    """The SDK does not say how the server has ended."""
    processes.append(await create_process(*words, **more))
    return processes[-1]


async def session(tool, command, cancels):
    parameters = StdioServerParameters(command=command)
    async with stdio.stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        same(tool in [one.name for one in (await client.list_tools()).tools], True)
        ident = client._request_id
        call = asyncio.ensure_future(client.call_tool(tool, ENDLESS[tool]))
        await asyncio.sleep(0.05)
        await client.send_ping()
        if cancels:
            # The SDK has no function for it.
            await client.send_notification(types.ClientNotification(types.CancelledNotification(
                params=types.CancelledNotificationParams(requestId=ident, reason="enough"))))
            await client.send_ping()
        same(call.done(), False)
        call.cancel()
        began = time.monotonic()
    # By itself: an exit code, and no signal.
    same((processes[-1].returncode, time.monotonic() - began < TIME_MAX), (0, True))


async def work():
    stdio._create_platform_compatible_process = create_and_keep
    # With the tool cancelled, and while it still runs.
    for cancels in (True, False):
        await asyncio.wait_for(session(*sys.argv[1:], cancels), 12)
    print(f"ok {checks}")


asyncio.run(work())
