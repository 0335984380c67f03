"""JSON-RPC libraries that nobody here wrote, as clients and as servers."""

import shutil

from raw_client import Client
from raw_server import Server
from suite import HERE, MCP, PEER, PYTHON, case, node_env
from wire import Process, run_once

PEERS_HERE = HERE / "peers"
NODE = shutil.which("node")
TIME_MAX = 30


def checks(command):
    """Runs a foreign driver to its end; it prints how many checks it made."""
    code, out, err = run_once(command, env=node_env(), timeout=TIME_MAX)
    assert code == 0 and out.startswith(b"ok "), (code, out[-500:], err.decode()[-3000:])
    return f"{out.split()[1].decode()} checks"


def foreign_server(command):
    """Starts a foreign server that prints its port."""
    process = Process(command, env=node_env())
    port = process.process.stdout.readline()
    return process, int(port)


# -- npm

for package in ("vscode-jsonrpc", "vscode-jsonrpc-10"):
    @case(f"{package} as client of server stdio:lsp", (f"npm:{package}",))
    def vscode_stdio(package=package):
        return checks([NODE, PEERS_HERE / "vscode_client.cjs", package, "stdio", PEER,
                       "--preset", "lsp", "server", "stdio:lsp"])

    @case(f"{package} as client of server tcp+lsp", (f"npm:{package}",))
    def vscode_tcp(package=package):
        server = Server("tcp+lsp", "--preset", "lsp")
        return checks([NODE, PEERS_HERE / "vscode_client.cjs", package, "tcp", server.address[1]])

    @case(f"{package} as server of client stdio:lsp", (f"npm:{package}",))
    def vscode_server(package=package):
        client = Client(f"stdio:lsp:{NODE}", str(PEERS_HERE / "vscode_server.cjs"), package,
                        options=("--preset", "lsp"), env=node_env())
        assert client.call("add", [1, 2]) == {"result": 3}
        assert client.call("named", {"ü": "€😀"}) == {"result": {"ü": "€😀"}}
        assert client.call("fail") == {"error": {"code": 9, "message": "failed", "data": {"x": 1}}}
        assert client.call("nope")["error"]["code"] == -32601
        assert client.call("burst", [50]) == {"result": 50}
        for i in range(50):
            assert client.do("wait", method="tick", timeout_ms=1000) == {"notification": [i]}
        client.do("answer", method="who", result=["me"])
        assert client.call("ask", ["who"]) == {"result": ["me"]}
        answer = client.call("slow", cancel_after_ms=50)
        assert answer == {"error": {"code": -32800, "message": "given up"}}, answer
        client.do("notify", method="exit")
        assert "exit status: 0" in client.do("wait", method="x", timeout_ms=5000)["closed"]


@case("jayson's TCP client of server tcp+json", ("npm:jayson",))
def jayson_client():
    server = Server("tcp+json")
    return checks([NODE, PEERS_HERE / "jayson_client.cjs", server.address[1]])


@case("jayson's TCP server, which puts nothing between values, of client tcp+json", ("npm:jayson",))
def jayson_server():
    process, port = foreign_server([NODE, PEERS_HERE / "jayson_server.cjs", "2"])
    client = Client(f"tcp+json://127.0.0.1:{port}")
    assert client.call("add", [1, 2]) == {"result": 3}
    assert client.call("fail", []) == {"error": {"code": 7, "message": "failed", "data": {"a": 1}}}
    assert client.call("nope", [])["error"]["code"] == -32601
    text = "äß€😀" * 50_000
    assert client.call("echo", [text], 20) == {"result": [text]}
    answer = client.do("batch", items=[{"method": "add", "params": [i, 1]} for i in range(50)])
    assert answer == {"batch": [{"result": i + 1} for i in range(50)]}, answer
    assert client.end() == 0
    process.kill()


@case("jayson's TCP server in its version 1, of client --preset v1: its errors need --lenient",
      ("npm:jayson",))
def jayson_version_one():
    process, port = foreign_server([NODE, PEERS_HERE / "jayson_server.cjs", "1"])
    # It leaves out the result of an error, which 1.0 demands.
    for lenient in ([], ["--lenient"]):
        client = Client(f"tcp+json://127.0.0.1:{port}", options=("--preset", "v1", *lenient))
        assert client.call("add", [1, 2]) == {"result": 3}
        answer = client.call("fail", [])
        if lenient:
            wanted = {"code": 7, "message": "failed", "data": {"a": 1}}
            assert answer == {"error": wanted}, answer
            assert client.call("nope", [])["error"]["code"] == -32601
        else:
            assert list(answer) == ["invalid"], answer
        assert client.end() == 0
    process.kill()


@case("aiorpcX auto as server of client --preset v1: its 2.0 answers to 1.0 are told as invalid",
      ("pypi:aiorpcx",))
def aiorpcx_auto():
    process, port = foreign_server([PYTHON, PEERS_HERE / "aiorpcx_server.py", "auto"])
    client = Client(f"tcp://127.0.0.1:{port}", options=("--preset", "v1"))
    assert list(client.call("add", [1, 2])) == ["invalid"]
    assert client.end() == 0
    process.kill()


@case("json-rpc-2.0 (npm) as client and server of server stdio:ndjson", ("npm:json-rpc-2.0",))
def json_rpc_2_0():
    return checks([NODE, PEERS_HERE / "json_rpc_2_0.cjs", PEER, "server", "stdio:ndjson"])


# -- PyPI

# ONE-01 ONE-09
for version, preset in (("v1", "v1"), ("v1", "mixed"), ("v2", "strict"), ("v2", "mixed"),
                        ("v2", "electrum")):
    @case(f"aiorpcX {version} as client of server --preset {preset}", ("pypi:aiorpcx",))
    def aiorpcx_client(version=version, preset=preset):
        server = Server("tcp", "--preset", preset)
        # Under `mixed` each request is answered in its own version, but what the server says of
        # its own accord is 2.0, which a peer of 1.0 cannot read.
        only = ["ask"] if (version, preset) == ("v1", "mixed") else []
        return checks([PYTHON, PEERS_HERE / "aiorpcx_client.py", version, server.address[1], *only])


# ONE-01 ONE-12
for version, preset in (("v1", "v1"), ("v2", "strict"), ("auto", "mixed")):
    @case(f"aiorpcX {version} as server of client --preset {preset}", ("pypi:aiorpcx",))
    def aiorpcx_server(version=version, preset=preset):
        process, port = foreign_server([PYTHON, PEERS_HERE / "aiorpcx_server.py", version])
        client = Client(f"tcp://127.0.0.1:{port}", options=("--preset", preset))
        assert client.call("add", [1, 2]) == {"result": 3}
        assert client.call("echo", [None, "€😀", 1.5]) == {"result": [None, "€😀", 1.5]}
        assert client.call("echo") == {"result": []}
        assert client.call("fail") == {"error": {"code": 7, "message": "failed"}}
        assert client.call("nope")["error"]["code"] == -32601
        for _ in range(3):
            assert client.do("notify", method="note", params=[1]) == {"ok": True}
        assert client.call("noted") == {"result": 3}
        assert client.call("burst", [5]) == {"result": 5}
        for i in range(5):
            assert client.do("wait", method="tick", timeout_ms=1000) == {"notification": [i]}
        client.do("answer", method="who", result=["me"])
        assert client.call("ask", ["who"]) == {"result": ["me"]}
        assert client.call("ask", ["nobody"])["error"]["code"] == -32601
        items = [{"method": "add", "params": [1, 1]}, {"method": "note", "params": [], "notify": True},
                 {"method": "nope"}]
        answer = client.do("batch", items=items)
        if preset == "v1":
            assert "refused" in answer, answer
        else:
            assert answer["batch"][0] == {"result": 2}, answer
            assert answer["batch"][1]["error"]["code"] == -32601, answer
        assert client.end() == 0
        process.kill()


@case("python-lsp-jsonrpc as client of server stdio:lsp", ("pypi:pylsp_jsonrpc",))
def pylsp_client():
    return checks([PYTHON, PEERS_HERE / "pylsp_jsonrpc_client.py", PEER, "server", "stdio:lsp"])


@case("python-lsp-jsonrpc as server of client stdio:lsp", ("pypi:pylsp_jsonrpc",))
def pylsp_server():
    client = Client(f"stdio:lsp:{PYTHON}", str(PEERS_HERE / "pylsp_jsonrpc_server.py"))
    assert client.call("add", {"a": 1, "b": 2}) == {"result": 3}
    assert client.call("fail", {}) == {
        "error": {"code": 7, "message": "failed", "data": {"x": 1}}}
    assert client.call("nope")["error"]["code"] == -32601
    assert client.call("burst", {"count": 5}) == {"result": 5}
    for i in range(5):
        assert client.do("wait", method="tick", timeout_ms=1000) == {"notification": [i]}
    client.do("answer", method="who", result={"ü": "€😀"})
    assert client.call("ask", {"method": "who"}) == {"result": {"ü": "€😀"}}
    assert client.end() == 0


@case("jsonrpcserver (PyPI) of client stdio:ndjson", ("pypi:jsonrpcserver",))
def jsonrpcserver():
    client = Client(f"stdio:ndjson:{PYTHON}", str(PEERS_HERE / "jsonrpcserver_lines.py"))
    assert client.call("add", [1, 2]) == {"result": 3}
    assert client.call("add", {"a": 1, "b": 2}) == {"result": 3}
    assert client.call("add", [1])["error"]["code"] == -32602
    assert client.call("fail") == {"error": {"code": 7, "message": "failed", "data": {"x": 1}}}
    assert client.call("nope")["error"]["code"] == -32601
    answer = client.do("batch", items=[
        {"method": "add", "params": [1, 1]}, {"method": "add", "params": [1, 1], "notify": True},
        {"method": "nope"}])
    assert answer["batch"][0] == {"result": 2}, answer
    assert client.end() == 0


@case("pygls server through client and through proxy", ("pypi:pygls",))
def pygls():
    from language_servers import Editor, ThroughClient, ThroughProxy, comment_of
    from wire import temporary_folder
    for route in (ThroughClient, ThroughProxy):
        with temporary_folder() as folder:
            editor = Editor(route, [PYTHON, PEERS_HERE / "pygls_server.py"], "plaintext", "txt",
                            folder)
            editor.start()
            text = comment_of("#", 1 << 20)
            lines = text.count("\n")
            editor.open("doc", text + "BUG here\n")
            found = editor.diagnostics("doc", "bug")
            assert found[0]["range"]["start"]["line"] == lines, found
            editor.hover("doc", lines, 5, "the word here")
            editor.seen.add("1 MiB")
            answer = editor.session.request("interop/ask", {})
            assert answer["result"] == 4, answer
            editor.asked("workspace/configuration")
            editor.cancel("interop/slow", {})
            editor.finish()
    return "all six seen"


# -- MCP

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
    from suite import MODULES
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
