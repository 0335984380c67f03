"""JSON-RPC libraries of other authors, over pipes and plain sockets, as clients and as servers."""

import shutil

from checklist import but, client_sees, same, server_seen
from raw_client import Client
from raw_server import Server
from suite import HERE, PEER, PYTHON, case, node_env, rust
from wire import Process

PEERS_HERE = HERE / "peers"
NODE = shutil.which("node")


def foreign_server(command):
    """Starts a foreign server that prints its port; gives that too."""
    process = Process(command, env=node_env())
    return process, int(process.stdout_line())


def js(name):
    return [NODE, PEERS_HERE / name]


def py(name):
    return [PYTHON, PEERS_HERE / name]


def burst(client, *params):
    """Notifications that were sent before a result arrive before it."""
    same(client.call("burst", *params), {"result": 50})
    for i in range(50):
        same(client.do("wait", method="tick", timeout_ms=1000), {"notification": [i]})


# -- npm

# It has no batches.
VSCODE = but("batch")

for package in ("vscode-jsonrpc", "vscode-jsonrpc-10"):
    @case(f"{package} as client of server stdio:lsp", (f"npm:{package}",))
    def vscode_stdio(package=package):
        return client_sees([*js("vscode_client.cjs"), package, "stdio", *sorted(VSCODE), "--",
                            PEER, "--preset", "lsp", "server", "stdio:lsp"], VSCODE)

    @case(f"{package} as client of server tcp+lsp", (f"npm:{package}",))
    def vscode_tcp(package=package):
        server = Server("tcp+lsp", "--preset", "lsp")
        return client_sees([*js("vscode_client.cjs"), package, "tcp", server.address[1],
                            *sorted(VSCODE)], VSCODE)

    @case(f"{package} as server of client stdio:lsp", (f"npm:{package}",))
    def vscode_server(package=package):
        client = Client(f"stdio:lsp:{NODE}", str(PEERS_HERE / "vscode_server.cjs"), package,
                        options=("--preset", "lsp"), env=node_env())
        seen = server_seen(client, VSCODE)
        burst(client, [50])
        client.do("notify", method="exit")
        assert "exit status: 0" in client.do("wait", method="x", timeout_ms=5000)["closed"]
        return seen


# Every call of its TCP client has a connection of its own.
JAYSON = but("cancel", "back")


@case("jayson's TCP client of server tcp+json", ("npm:jayson",))
def jayson_client():
    server = Server("tcp+json")
    return client_sees([*js("jayson_client.cjs"), "tcp", f"tcp://127.0.0.1:{server.address[1]}",
                        *sorted(JAYSON)], JAYSON)


@case("jayson's TCP server, which puts nothing between values, of client tcp+json", ("npm:jayson",))
def jayson_server():
    _, port = foreign_server([*js("jayson_server.cjs"), "tcp", "2"])
    client = Client(f"tcp+json://127.0.0.1:{port}")
    seen = server_seen(client, JAYSON)
    assert client.end() == 0
    return seen


@case("jayson's TCP server in its version 1, of client --preset v1: its errors need --lenient",
      ("npm:jayson",))
def jayson_version_one():
    _, port = foreign_server([*js("jayson_server.cjs"), "tcp", "1"])
    # 1.0 has neither params by name nor batches.
    wanted = but("name", "batch", "error", "cancel", "back")
    # It leaves out the result of an error, which 1.0 demands.
    client = Client(f"tcp+json://127.0.0.1:{port}", options=("--preset", "v1"))
    seen = server_seen(client, wanted)
    assert list(client.call("nope", [])) == ["invalid"]
    assert client.end() == 0
    client = Client(f"tcp+json://127.0.0.1:{port}", options=("--preset", "v1", "--lenient"))
    same(client.call("nope", [])["error"]["code"], -32601)
    assert client.end() == 0
    return seen


# It has no means to cancel.
TWO_WAY = but("cancel")


@case("json-rpc-2.0 (npm) as client and server of server stdio:ndjson", ("npm:json-rpc-2.0",))
def json_rpc_2_0_client():
    return client_sees([*js("json_rpc_2_0_client.cjs"), "stdio", *sorted(TWO_WAY), "--",
                        PEER, "server", "stdio:ndjson"], TWO_WAY)


@case("json-rpc-2.0 (npm) as server and client of client stdio:ndjson", ("npm:json-rpc-2.0",))
def json_rpc_2_0_server():
    client = Client(f"stdio:ndjson:{NODE}", str(PEERS_HERE / "json_rpc_2_0_server.cjs"), "stdio",
                    env=node_env())
    seen = server_seen(client, TWO_WAY)
    assert client.end() == 0
    return seen


# -- PyPI

# Its error objects hold no data; peers/aiorpcx_client.py checks the codes.
AIORPCX = {"v1": but("name", "error", "batch", "cancel"), "v2": but("error", "cancel")}

# ONE-01 ONE-09
for version, preset in (("v1", "v1"), ("v1", "mixed"), ("v2", "strict"), ("v2", "mixed"),
                        ("v2", "electrum")):
    @case(f"aiorpcX {version} as client of server --preset {preset}", ("pypi:aiorpcx",))
    def aiorpcx_client(version=version, preset=preset):
        server = Server("tcp", "--preset", preset)
        # Under `mixed` each request is answered in its own version, but what the server says of
        # its own accord is 2.0, which a peer of 1.0 cannot read.
        wanted = AIORPCX[version] - ({"back"} if (version, preset) == ("v1", "mixed") else set())
        return client_sees([*py("aiorpcx_client.py"), version, server.address[1],
                            *sorted(wanted)], wanted)


# ONE-01 ONE-12
for version, preset in (("v1", "v1"), ("v2", "strict"), ("auto", "mixed")):
    @case(f"aiorpcX {version} as server of client --preset {preset}", ("pypi:aiorpcx",))
    def aiorpcx_server(version=version, preset=preset):
        _, port = foreign_server([*py("aiorpcx_server.py"), version])
        client = Client(f"tcp://127.0.0.1:{port}", options=("--preset", preset))
        seen = server_seen(client, AIORPCX["v2" if version == "auto" else version])
        same(client.call("echo", [None, "€😀", 1.5]), {"result": [None, "€😀", 1.5]})
        same(client.call("echo"), {"result": []})
        same(client.call("nope")["error"]["code"], -32601)
        same(client.call("callback", ["nobody", []])["error"]["code"], -32601)
        burst(client, [50])
        if preset == "v1":
            assert "refused" in client.do("batch", items=[{"method": "count"}])
        else:
            same(client.call("fail", {"code": 7, "message": "failed"}),
                 {"error": {"code": 7, "message": "failed"}})
        assert client.end() == 0
        return seen


@case("aiorpcX auto as server of client --preset v1: its 2.0 answers to 1.0 are told as invalid",
      ("pypi:aiorpcx",))
def aiorpcx_auto():
    _, port = foreign_server([*py("aiorpcx_server.py"), "auto"])
    client = Client(f"tcp://127.0.0.1:{port}", options=("--preset", "v1"))
    assert list(client.call("subtract", [1, 2])) == ["invalid"]
    assert client.end() == 0


# Neither has batches.
PYLSP = but("batch")

# TST-15
for package, module in (("python-lsp-jsonrpc", "pylsp_jsonrpc"),
                        ("python-jsonrpc-server", "pyls_jsonrpc")):
    @case(f"{package} as client of server stdio:lsp", (f"pypi:{module}",))
    def pylsp_client(module=module):
        return client_sees([*py("pylsp_client.py"), module, *sorted(PYLSP), "--",
                            PEER, "--preset", "lsp", "server", "stdio:lsp"], PYLSP)

    @case(f"{package} as server of client stdio:lsp", (f"pypi:{module}",))
    def pylsp_server(module=module):
        client = Client(f"stdio:lsp:{PYTHON}", str(PEERS_HERE / "pylsp_server.py"), module,
                        options=("--preset", "lsp"))
        # It cannot cancel a call that already runs.
        seen = server_seen(client, PYLSP - {"cancel"})
        burst(client, {"count": 50})
        assert client.end() == 0
        return seen


# TST-15
@case("jsonrpcserver (PyPI) of client stdio:ndjson", ("pypi:jsonrpcserver", "pypi:aiohttp"))
def jsonrpcserver():
    client = Client(f"stdio:ndjson:{PYTHON}", str(PEERS_HERE / "jsonrpcserver_peer.py"), "stdio")
    # A loop over lines, one after the other.
    seen = server_seen(client, but("order", "cancel", "back"))
    same(client.call("add", {"a": 1, "b": 2}), {"result": 3})
    same(client.call("add", [1])["error"]["code"], -32602)
    assert client.end() == 0
    return seen


# It has no batches.
PYGLS = but("batch")


@case("pygls's client of server stdio:lsp", ("pypi:pygls",))
def pygls_client_stdio():
    return client_sees([*py("pygls_client.py"), "stdio", *sorted(PYGLS), "--",
                        PEER, "--preset", "lsp", "server", "stdio:lsp"], PYGLS)


@case("pygls's client of server tcp+lsp", ("pypi:pygls",))
def pygls_client_tcp():
    server = Server("tcp+lsp", "--preset", "lsp")
    return client_sees([*py("pygls_client.py"), "tcp", server.address[1], *sorted(PYGLS)], PYGLS)


@case("pygls's JSON-RPC server of client stdio:lsp", ("pypi:pygls",))
def pygls_server_stdio():
    client = Client(f"stdio:lsp:{PYTHON}", str(PEERS_HERE / "pygls_rpc_server.py"), "stdio",
                    options=("--preset", "lsp"))
    seen = server_seen(client, PYGLS)
    assert client.end() == 0
    return seen


@case("pygls's JSON-RPC server of client tcp+lsp", ("pypi:pygls",))
def pygls_server_tcp():
    _, port = foreign_server([*py("pygls_rpc_server.py"), "tcp"])
    client = Client(f"tcp+lsp://127.0.0.1:{port}", options=("--preset", "lsp"))
    seen = server_seen(client, PYGLS)
    assert client.end() == 0
    return seen


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




# -- crates.io

# It has no batches.
LSP_SERVER = but("batch")


@case("lsp-server (crates.io) as client of server stdio:lsp", ("rust:lsp_server_peer",))
def lsp_server_client():
    return client_sees([rust("lsp_server_peer"), "client", *sorted(LSP_SERVER), "--",
                        PEER, "--preset", "lsp", "server", "stdio:lsp"], LSP_SERVER)


@case("lsp-server (crates.io) as server of client stdio:lsp", ("rust:lsp_server_peer",))
def lsp_server_server():
    client = Client(f"stdio:lsp:{rust('lsp_server_peer')}", "server", options=("--preset", "lsp"))
    seen = server_seen(client, LSP_SERVER)
    assert client.end() == 0
    return seen
