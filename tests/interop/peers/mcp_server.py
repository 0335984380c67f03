"""A server of the Python SDK of the Model Context Protocol, over stdio, which validates params strictly."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("strict")


@server.tool()
def echo(message: str) -> str:
    """Gives its message back."""
    return message


server.run("stdio")
