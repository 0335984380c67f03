"""Peers of the Model Context Protocol, over stdio: as clients of `mcp`, as servers of our client."""

import socket

from checklist import TEXT, but, client_sees, same, shown
from libraries import NODE, PEERS_HERE
from raw_client import Client
from record import between
from suite import MCP, MODULES, PEER, PROFILE, PYTHON, TARGET, Skip, case, node_env, rust
from wire import Process, run_once

TIMEOUT = 30
EXAMPLE = TARGET / PROFILE / "examples" / "mcp_server"
TOOLS = TARGET / PROFILE / "examples" / "mcp_tools"


def checks(command):
    """Runs a foreign driver to its end, which prints `ok` and how many checks it made; says so."""
    code, out, err = run_once(command, env=node_env(), timeout=TIMEOUT)
    assert code == 0 and out.startswith(b"ok "), (code, out[-500:], err.decode()[-3000:])
    return f"{out.split()[1].decode()} checks"


MCP_PACKAGE = ("npm:@modelcontextprotocol/sdk",)


# TST-16 EXA-04
@case("MCP TypeScript SDK as client of antiphon's mcp", MCP_PACKAGE)
def mcp_sdk():
    return checks([NODE, PEERS_HERE / "mcp_client.cjs", *between([MCP])])


# EXA-04 SEC-13
@case("MCP TypeScript SDK as client of the example mcp_server", MCP_PACKAGE)
def mcp_sdk_example():
    if not EXAMPLE.exists():
        raise Skip("not built: cargo build --example mcp_server")
    return checks([NODE, PEERS_HERE / "mcp_example_client.cjs", EXAMPLE])


# EXA-04
@case("MCP TypeScript SDK as client of the example mcp_tools", MCP_PACKAGE)
def mcp_sdk_tools():
    if not TOOLS.exists():
        raise Skip("not built: cargo build -p antiphon-tokio --features openrpc --example mcp_tools")
    return checks([NODE, PEERS_HERE / "mcp_tools_client.cjs", TOOLS])


EXAMPLE_OVER_HTTP = TARGET / PROFILE / "examples" / "mcp_http"


def over_http(command):
    if not EXAMPLE_OVER_HTTP.exists():
        raise Skip("not built: cargo build -p antiphon-tokio --features http --example mcp_http")
    server = Process([EXAMPLE_OVER_HTTP, "127.0.0.1:0"])
    return checks([*command, server.stderr_line(r"^listening (\S+)$").group(1)])


# TST-16 HTP-01
@case("MCP TypeScript SDK over HTTP as client of the example mcp_http", MCP_PACKAGE)
def mcp_sdk_http():
    return over_http([NODE, PEERS_HERE / "mcp_http_client.cjs"])


# TST-16 HTP-01
@case("MCP Python SDK over HTTP as client of the example mcp_http", ("pypi:mcp",))
def python_sdk_http():
    return over_http([PYTHON, PEERS_HERE / "mcp_http_client.py"])


@case("MCP TypeScript SDK as client of antiphon's mcp through the proxy", MCP_PACKAGE)
def mcp_sdk_proxy():
    return checks(["env", "ANTIPHON_FRAMING=newline", NODE, PEERS_HERE / "mcp_client.cjs",
                   PEER, "proxy", MCP])


def handshaken(*words):
    """A client that has shaken hands, and answers what servers ask for."""
    client = Client(*words, options=("--preset", "mcp"))
    client.do("answer", method="roots/list", result={"roots": [{"uri": "file:///x", "name": "x"}]})
    client.do("answer", method="sampling/createMessage", result={
        "model": "m", "role": "assistant", "content": {"type": "text", "text": "because"}})
    answer = client.call("initialize", {
        "protocolVersion": "2025-11-25", "clientInfo": {"name": "interop", "version": "1"},
        "capabilities": {"roots": {"listChanged": True}, "sampling": {}}}, 20)
    assert answer["result"]["protocolVersion"] == "2025-11-25", answer
    client.do("notify", method="notifications/initialized")
    return client


# Params have names in this protocol, and batches are gone.
POINTS = but("position", "batch")


# The errors of `mcp` hold no data; peers/rust/src/bin/rmcp_peer.rs checks the code.
OF_MCP = but("position", "batch", "error")


# TST-16
@case("rmcp as client of antiphon's mcp", ("rust:rmcp_peer",))
def rmcp_client():
    return client_sees([rust("rmcp_peer"), "client", MCP], OF_MCP)


# TST-16
@case("rmcp as client of antiphon's mcp through the proxy", ("rust:rmcp_peer",))
def rmcp_client_proxy():
    return client_sees([rust("rmcp_peer"), "client", PEER, "proxy", MCP], OF_MCP,
                       {"ANTIPHON_FRAMING": "newline"})


def tool(name, **arguments):
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def said(answer):
    return answer["result"]["content"][0]["text"]


# TST-16
@case("rmcp as server of client --preset mcp", ("rust:rmcp_peer",))
def rmcp_server():
    client = handshaken("stdio:ndjson:" + str(rust("rmcp_peer")), "server")
    names = [one["name"] for one in client.call("tools/list")["result"]["tools"]]
    same(names, ["echo", "add", "progress", "ask"])
    same(said(client.do("call", **tool("add", a=2, b=40))), "42")
    same(client.do("call", **tool("add", a="x"))["error"],
         {"code": -32602, "message": "Invalid params", "data": ["a"]})
    same(client.call("nope/nope", {})["error"]["code"], -32601)
    slow = tool("progress", steps=3, delayMs=5)
    slow["params"]["_meta"] = {"progressToken": "t"}
    same(said(client.do("call", **slow)), "3 steps done")
    for step in (1, 2, 3):
        told = client.do("wait", method="notifications/progress", timeout_ms=2000)["notification"]
        same((told["progressToken"], told["progress"], told["total"]), ("t", step, 3))
    items = []
    for i in range(50):
        items += [tool("progress", steps=1, delayMs=400 - 8 * i), tool("add", a=i, b=1)]
    done = client.do("calls", items=items, timeout=20)
    wanted = ["1 steps done", None] * 50
    wanted[1::2] = [str(i + 1) for i in range(50)]
    same([said(answer) for answer in done["calls"]], wanted)
    assert done["order"].index(0) > 0, done["order"]
    same(said(client.do("call", 20, **tool("echo", text=TEXT))), TEXT)
    same(client.do("call", **tool("progress", steps=1000, delayMs=20), cancel_after_ms=100),
         {"cancelled": True})
    same(said(client.do("call", **tool("ask"))), "file:///x")
    assert client.end() == 0
    return shown(POINTS, POINTS)


# TST-16
@case("server-everything of client --preset mcp", ("npm:@modelcontextprotocol/server-everything",))
def everything():
    script = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    client = handshaken(f"stdio:ndjson:{NODE}", str(script), "stdio")
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


TYPED = TARGET / PROFILE / "mcp_client"


# USE-33 TST-16
@case("server-everything of the typed client", ("npm:@modelcontextprotocol/server-everything",))
def everything_typed():
    script = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    return checks([TYPED, NODE, script, "stdio"])


# USE-33 TST-16
@case("MCP Python SDK as server of the typed client", ("pypi:mcp",))
def python_typed():
    return checks([TYPED, PYTHON, PEERS_HERE / "mcp_server.py"])


# -- HTTP: answers that are streams of events, with progress before the answer


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


OVER_HTTP = TARGET / PROFILE / "mcp_http"

for runtime in ("blocking", "tokio", "smol"):
    # USE-14 TST-16
    @case(f"server-everything of the HTTP client on {runtime}",
          ("npm:@modelcontextprotocol/server-everything",))
    def everything_http(runtime=runtime):
        script = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
        port = free_port()
        server = Process([NODE, script, "streamableHttp"], env={"PORT": str(port)})
        server.stderr_line(r"listening on port (\d+)")
        return checks([OVER_HTTP, runtime, f"http://127.0.0.1:{port}/mcp",
                       "trigger-long-running-operation", '{"duration":1,"steps":4}'])

    # USE-14 TST-16
    @case(f"MCP Python SDK as server of the HTTP client on {runtime}", ("pypi:mcp",))
    def python_http(runtime=runtime):
        server = Process([PYTHON, PEERS_HERE / "mcp_http_server.py"])
        port = server.stderr_line(r"running on http://127.0.0.1:(\d+)").group(1)
        return checks([OVER_HTTP, runtime, f"http://127.0.0.1:{port}/mcp", "steps",
                       '{"steps":4,"seconds":0.25}'])


# -- ends

OURS = {"mcp": ("progress", MCP), "the example mcp_server": ("wait", EXAMPLE),
        "the example mcp_tools": ("wait", TOOLS)}

for server, (tool_name, command) in OURS.items():
    # EXA-04
    @case(f"MCP TypeScript SDK closes {server} with a tool cancelled and with one that runs",
          MCP_PACKAGE)
    def mcp_sdk_closes(tool_name=tool_name, command=command):
        if not command.exists():
            raise Skip(f"not built: {command.name}")
        return checks([NODE, PEERS_HERE / "mcp_end_client.cjs", tool_name, command])

    # EXA-04
    @case(f"MCP Python SDK closes {server} with a tool cancelled and with one that runs",
          ("pypi:mcp",))
    def python_closes(tool_name=tool_name, command=command):
        if not command.exists():
            raise Skip(f"not built: {command.name}")
        return checks([PYTHON, PEERS_HERE / "mcp_end_client.py", tool_name, command])
