"""A server of the Python SDK of the Model Context Protocol, over stdio, which validates params strictly."""

import anyio
from mcp.server.fastmcp import FastMCP

server = FastMCP("strict")


@server.tool()
def echo(message: str) -> str:
    """Gives its message back."""
    return message


@server.tool()
async def wait(seconds: float) -> str:
    """Waits."""
    await anyio.sleep(seconds)
    return "waited"


server.run("stdio")
