"""Compiled libraries from Debian, in C, C++ and Go, as clients and as servers."""

from checklist import TEXT, but, client_sees, order_of, same, server_seen, shown
from libraries import foreign_server
from raw_client import Client
from raw_server import Server
from suite import COMPILED, PEER, case
from web_libraries import over

# -- Go's net/rpc/jsonrpc: 1.0, one argument a call, errors that are texts, no notifications

GO = but("name", "error", "notification", "batch", "cancel", "back")


# ONE-01
@case("Go's net/rpc/jsonrpc as client of server --preset v1", ("compiled:go_stdlib",))
def go_client():
    server = Server("tcp", "--preset", "v1")
    return client_sees([COMPILED / "go_stdlib", "client", server.address[1], *sorted(GO)], GO)


# ONE-01 TST-20
@case("Go's net/rpc/jsonrpc as server of client --preset v1", ("compiled:go_stdlib",))
def go_server():
    _, port = foreign_server([COMPILED / "go_stdlib", "server"])
    client = Client(f"tcp://127.0.0.1:{port}", options=("--preset", "v1"))
    numbers = {"minuend": 42, "subtrahend": 23}
    same(client.call("Peer.Subtract", [numbers]), {"result": 19})
    failed = client.call("Peer.Fail", ["no, because"])
    same(failed.get("error", {}).get("data", failed), "no, because")
    items = []
    for i in range(50):
        items += [{"method": "Peer.Sleep", "params": [400 - 8 * i]},
                  {"method": "Peer.Echo", "params": [str(i)]}]
    answers = ["slept", None] * 50
    answers[1::2] = [str(i) for i in range(50)]
    order_of(client, items, answers)
    same(client.call("Peer.Echo", [TEXT], 20), {"result": TEXT})
    assert client.end() == 0
    return shown(GO, GO)


# -- sourcegraph/jsonrpc2 for Go: two-way, 2.0, in three framings

SOURCEGRAPH = but("batch", "cancel")

for kind in ("tcp+lsp", "tcp+json"):
    @case(f"sourcegraph/jsonrpc2 as client of server {kind}", ("compiled:go_sourcegraph",))
    def sourcegraph_client(kind=kind):
        server = Server(kind)
        return client_sees([COMPILED / "go_sourcegraph", "client", kind, server.address[1],
                            *sorted(SOURCEGRAPH)], SOURCEGRAPH)

    @case(f"sourcegraph/jsonrpc2 as server of client {kind}", ("compiled:go_sourcegraph",))
    def sourcegraph_server(kind=kind):
        _, port = foreign_server([COMPILED / "go_sourcegraph", "server", kind])
        client = Client(f"{kind}://127.0.0.1:{port}")
        seen = server_seen(client, SOURCEGRAPH)
        assert client.end() == 0
        return seen


@case("sourcegraph/jsonrpc2 as client of server ws", ("compiled:go_sourcegraph", "target:ws"))
def sourcegraph_client_ws():
    port = over("ws").rpartition(":")[2].partition("/")[0]
    return client_sees([COMPILED / "go_sourcegraph", "client", "ws", port, *sorted(SOURCEGRAPH)],
                       SOURCEGRAPH)


@case("sourcegraph/jsonrpc2 as server of client ws", ("compiled:go_sourcegraph", "target:ws"))
def sourcegraph_server_ws():
    _, port = foreign_server([COMPILED / "go_sourcegraph", "server", "ws"])
    client = Client(f"ws://127.0.0.1:{port}/")
    seen = server_seen(client, SOURCEGRAPH)
    assert client.end() == 0
    return seen
