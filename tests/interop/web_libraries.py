"""JSON-RPC libraries of other authors, over HTTP and WebSocket, as clients and as servers."""

from checklist import TIMEOUT, but, client_sees, same, server_seen
from libraries import foreign_server, js, py
from raw_client import Client
from suite import PEER, RUNTIME, case, rust
from wire import Process, run_once

# What most libraries have over a transport. Only pygls can cancel; over HTTP a client cannot be
# called back, and over WebSocket only some libraries can be (TWO_WAY).
HTTP = but("cancel", "back")
TWO_WAY = but("cancel")
ONE_WAY = but("cancel", "back")

# The adapter that everything else runs on (None), and the other three.
RUNTIMES = (None, "tokio", "smol", "async-std")


def on(runtime):
    return f" on {runtime}" if runtime else ""


def served(target, *options):
    """Starts antiphon's server; gives the URL that it listens on."""
    process = Process([PEER, *RUNTIME, *options, "server", target])
    return process.stderr_line(r"^listening (\S+)$").group(1)


def over(scheme, *options):
    """The URL of a server of ours, with a path that the libraries can use."""
    return served(f"{scheme}://127.0.0.1:0/" + ("rpc" if scheme == "http" else ""), *options)


def seen_of(url, wanted, *options, **given):
    """Drives a foreign server; gives the client, still connected, and the points that were seen."""
    client = Client(url, options=options)
    seen = server_seen(client, wanted, **given)
    return client, seen


# -- jayson

# TST-20
for kind in ("http", "ws"):
    @case(f"jayson as client of server {kind}", ("npm:jayson", "npm:ws", f"target:{kind}"))
    def jayson_client(kind=kind):
        return client_sees([*js("jayson_client.cjs"), kind, over(kind), *sorted(ONE_WAY)], ONE_WAY)

    @case(f"jayson as server of client {kind}", ("npm:jayson", f"target:{kind}"))
    def jayson_server(kind=kind):
        _, port = foreign_server([*js("jayson_server.cjs"), kind, "2"])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", ONE_WAY)
        assert client.end() == 0
        return seen


# -- json-rpc-2.0, which leaves the transport to its users: fetch and node's server, and ws

for kind, points, runtime in [("http", HTTP, None)] + [("ws", TWO_WAY, one) for one in RUNTIMES]:
    options = ("--runtime", runtime) if runtime else ()

    @case(f"json-rpc-2.0 (npm) as client of server {kind}{on(runtime)}",
          ("npm:json-rpc-2.0", "npm:ws", f"target:{kind}"))
    def json_rpc_2_0_client(kind=kind, points=points, options=options):
        return client_sees([*js("json_rpc_2_0_client.cjs"), kind, over(kind, *options),
                            *sorted(points)], points)

    @case(f"json-rpc-2.0 (npm) as server of client {kind}{on(runtime)}",
          ("npm:json-rpc-2.0", "npm:ws", f"target:{kind}"))
    def json_rpc_2_0_server(kind=kind, points=points, options=options):
        _, port = foreign_server([*js("json_rpc_2_0_server.cjs"), kind])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", points, *options)
        assert client.end() == 0
        return seen


# -- rpc-websockets

@case("rpc-websockets as client of server ws", ("npm:rpc-websockets", "target:ws"))
def rpc_websockets_client():
    wanted = but("batch", "cancel", "back")
    return client_sees([*js("rpc_websockets_client.cjs"), over("ws"), *sorted(wanted)], wanted)


@case("rpc-websockets as server of client ws: its events are no JSON-RPC, and do no harm",
      ("npm:rpc-websockets", "target:ws"))
def rpc_websockets_server():
    _, port = foreign_server(js("rpc_websockets_server.cjs"))
    client, seen = seen_of(f"ws://127.0.0.1:{port}/", ONE_WAY)
    same(client.call("rpc.on", ["tick"]), {"result": {"tick": "ok"}})
    same(client.call("emit", [5]), {"result": 5})
    same(client.call("echo", ["after"]), {"result": ["after"]})
    same(client.do("wait", method="tick", timeout_ms=100), {"timeout": True})
    assert client.end() == 0
    return seen


# -- jsonrpsee

for kind, runtime in [("ws", None)] + [("http", one) for one in RUNTIMES]:
    options = ("--runtime", runtime) if runtime else ()

    @case(f"jsonrpsee as client of server {kind}{on(runtime)}",
          ("rust:jsonrpsee_peer", f"target:{kind}"))
    def jsonrpsee_client(kind=kind, options=options):
        return client_sees([rust("jsonrpsee_peer"), "client", kind, over(kind, *options),
                            *sorted(ONE_WAY)], ONE_WAY)

    # It takes notifications and drops them: its methods never hear of them.
    @case(f"jsonrpsee as server of client {kind}{on(runtime)}",
          ("rust:jsonrpsee_peer", f"target:{kind}"))
    def jsonrpsee_server(kind=kind, options=options):
        _, port = foreign_server([rust("jsonrpsee_peer"), "server"])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", ONE_WAY - {"notification"}, *options)
        same(client.do("notify", method="update", params=[1]), {"ok": True})
        same(client.call("count", []), {"result": 0})
        if kind == "ws":
            subscription = client.call("eth_subscribe", ["newHeads"])["result"]
            for number in ("0x11", "0x12", "0x13"):
                told = client.do("wait", method="eth_subscription", timeout_ms=2000)["notification"]
                same(told, {"subscription": subscription, "result": {"number": number}})
        assert client.end() == 0
        return seen


# -- PyPI

# TST-15
@case("jsonrpcclient (PyPI) as client of server http",
      ("pypi:jsonrpcclient", "pypi:aiohttp", "target:http"))
def jsonrpcclient():
    return client_sees([*py("jsonrpcclient_peer.py"), over("http"), *sorted(HTTP)], HTTP)


# TST-15
@case("jsonrpcserver (PyPI) behind aiohttp as server of client http",
      ("pypi:jsonrpcserver", "pypi:aiohttp", "target:http"))
def jsonrpcserver():
    _, port = foreign_server([*py("jsonrpcserver_peer.py"), "http"])
    client, seen = seen_of(f"http://127.0.0.1:{port}/jsonrpc", HTTP)
    assert client.end() == 0
    return seen


@case("jsonrpc-websocket (PyPI) as client of server ws", ("pypi:jsonrpc_websocket", "target:ws"))
def jsonrpc_websocket():
    wanted = but("batch", "cancel")
    return client_sees([*py("jsonrpc_websocket_client.py"), over("ws"), *sorted(wanted)], wanted)


# -- pygls and web3.py, which put their JSON into binary messages

def preset_and_runtime(preset, runtime):
    """The options of our side."""
    return [*(("--preset", preset) if preset else ()), *(("--runtime", runtime) if runtime else ())]


# Its WebSocket library takes no message above 1 MiB.
PYGLS_WS = but("batch", "text")

for preset, runtime in [("lsp", one) for one in RUNTIMES] + [(None, None)]:
    options = preset_and_runtime(preset, runtime)
    points = PYGLS_WS if preset else PYGLS_WS - {"cancel"}

    # USE-10 WSK-03
    @case(f"pygls's client of server ws, in binary messages, preset {preset or 'of the contract'}{on(runtime)}",
          ("pypi:pygls", "pypi:websockets", "target:ws"))
    def pygls_client(options=options, points=points):
        port = over("ws", *options).rpartition(":")[2].partition("/")[0]
        return client_sees([*py("pygls_client.py"), "ws", port, *sorted(points)], points)

# USE-10 WSK-03
for runtime in RUNTIMES:
    @case(f"pygls's JSON-RPC server of client ws, in binary messages{on(runtime)}",
          ("pypi:pygls", "pypi:websockets", "target:ws"))
    def pygls_server(options=preset_and_runtime("lsp", runtime)):
        _, port = foreign_server([*py("pygls_rpc_server.py"), "ws"])
        client, seen = seen_of(f"ws://127.0.0.1:{port}/", PYGLS_WS, *options)
        assert client.end() == 0
        return seen


# What web3.py has over which transport: see peers/web3_client.py.
WEB3 = {"http": {"blocking", "fifty", "error", "batch"},
        "ws": {"subscription", "fifty", "error", "batch"}}

for kind in ("http", "ws"):
    for preset, runtime in [("ethereum", one) for one in RUNTIMES] + [(None, None)]:
        options = preset_and_runtime(preset, runtime)

        # USE-10 TST-15
        @case(f"web3.py as client of server {kind}, preset {preset or 'of the contract'}{on(runtime)}",
              ("pypi:web3", f"target:{kind}"))
        def web3_client(kind=kind, options=options):
            code, out, err = run_once([*py("web3_client.py"), kind, over(kind, *options)], timeout=TIMEOUT)
            *lines, last = out.decode().split()
            assert (code, last) == (0, "ok"), err.decode(errors="replace")[-2000:]
            seen = set(lines) - {"seen"}
            assert seen == WEB3[kind], f"seen: {sorted(seen)}"
            return " ".join(sorted(seen))
