"""Peers of the Model Context Protocol, over stdio: as clients of `mcp`, as servers of our client."""

from libraries import NODE, PEERS_HERE
from raw_client import Client
from suite import MCP, MODULES, PEER, case, node_env
from wire import run_once

TIME_MAX = 30


def checks(command):
    """Runs a foreign driver to its end; it prints how many checks it made."""
    code, out, err = run_once(command, env=node_env(), timeout=TIME_MAX)
    assert code == 0 and out.startswith(b"ok "), (code, out[-500:], err.decode()[-3000:])
    return f"{out.split()[1].decode()} checks"


MCP_PACKAGE = ("npm:@modelcontextprotocol/sdk",)


# TST-16 EXA-04
@case("MCP TypeScript SDK as client of antiphon's mcp", MCP_PACKAGE)
def mcp_sdk():
    return checks([NODE, PEERS_HERE / "mcp_client.cjs", MCP])


@case("MCP TypeScript SDK as client of antiphon's mcp through the proxy", MCP_PACKAGE)
def mcp_sdk_proxy():
    return checks(["env", "ANTIPHON_FRAMING=newline", NODE, PEERS_HERE / "mcp_client.cjs",
                   PEER, "proxy", MCP])


# TST-16
@case("server-everything of client --preset mcp", ("npm:@modelcontextprotocol/server-everything",))
def everything():
    script = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    client = Client(f"stdio:ndjson:{NODE}", str(script), "stdio", options=("--preset", "mcp"))
    client.do("answer", method="roots/list", result={"roots": [{"uri": "file:///x", "name": "x"}]})
    client.do("answer", method="sampling/createMessage", result={
        "model": "m", "role": "assistant", "content": {"type": "text", "text": "because"}})
    answer = client.call("initialize", {
        "protocolVersion": "2025-11-25", "clientInfo": {"name": "interop", "version": "1"},
        "capabilities": {"roots": {"listChanged": True}, "sampling": {}}}, 20)
    assert answer["result"]["protocolVersion"] == "2025-11-25", answer
    client.do("notify", method="notifications/initialized")
    assert client.call("ping") == {"result": {}}
    assert client.do("asked", method="roots/list", timeout_ms=5000)["asked"] >= 1
    tools = [tool["name"] for tool in client.call("tools/list")["result"]["tools"]]
    assert "echo" in tools, tools
    answer = client.call("tools/call", {"name": "echo", "arguments": {"message": "äß€😀"}})
    assert "äß€😀" in answer["result"]["content"][0]["text"], answer
    long = next(name for name in tools if "long" in name.lower())
    answer = client.call("tools/call", {"name": long, "arguments": {"duration": 0.4, "steps": 4},
                                        "_meta": {"progressToken": "t"}})
    assert "result" in answer, answer
    progress = client.do("wait", method="notifications/progress", timeout_ms=2000)["notification"]
    assert progress["progressToken"] == "t", progress
    asks = next((name for name in tools if "sampling" in name.lower()), None)
    if asks:
        answer = client.call("tools/call", {"name": asks, "arguments": {
            "prompt": "why", "maxTokens": 5}}, 20)
        assert "because" in str(answer), answer
    answer = client.call("tools/call", {"name": long, "arguments": {"duration": 20, "steps": 2}},
                         cancel_after_ms=100)
    assert answer == {"cancelled": True}, answer
    assert client.call("ping") == {"result": {}}
    assert client.call("nope/nope")["error"]["code"] == -32601
    assert client.end() == 0
    return f"{len(tools)} tools"
