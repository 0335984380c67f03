"""A server of the Python SDK of the Model Context Protocol, over HTTP. Says its port on stderr."""

import anyio
from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("steps", host="127.0.0.1", port=0)


@server.tool()
async def steps(steps: int, seconds: float, ctx: Context) -> str:
    """Reports each step, and takes so many seconds for one."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
        await anyio.sleep(seconds)
    return "done"


server.run("streamable-http")
