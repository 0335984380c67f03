"""jsonrpc4j, on the JVM, over HTTP and over sockets, as client and as server."""

import shutil

from checklist import but, client_sees, server_seen
from libraries import foreign_server
from raw_client import Client
from raw_server import Server
from suite import PEERS, case
from web_libraries import over

JVM = PEERS / "jvm"
JAVA = [shutil.which("java"), "-cp", f"{JVM / 'classes'}:{JVM / 'jars'}/*", "Jsonrpc4j"]
NEEDS = ("jvm:Jsonrpc4j",)
# Its client has no batches, and over HTTP no notifications; on a socket it asks one thing at a time.
CLIENT = {"http": but("notification", "batch", "cancel", "back"),
          "tcp": but("batch", "order", "cancel", "back")}
# On a socket it drops what it has read after a value, so it can take only one message at a time.
SERVER = {"http": but("cancel", "back"), "tcp": but("notification", "order", "cancel", "back")}


# TST-14 HTP-07
for kind in ("http", "tcp"):
    more = ("target:http",) if kind == "http" else ()

    @case(f"jsonrpc4j as client of server {kind}", NEEDS + more)
    def jsonrpc4j_client(kind=kind):
        url = (over("http") if kind == "http"
               else f"tcp://127.0.0.1:{Server('tcp+json').address[1]}")
        return client_sees([*JAVA, "client", kind, url, *sorted(CLIENT[kind])], CLIENT[kind])

    @case(f"jsonrpc4j as server of client {kind}", NEEDS + more)
    def jsonrpc4j_server(kind=kind):
        _, port = foreign_server([*JAVA, "server", kind])
        target = f"http://127.0.0.1:{port}/" if kind == "http" else f"tcp+json://127.0.0.1:{port}"
        client = Client(target)
        seen = server_seen(client, SERVER[kind])
        assert client.end() == 0
        return seen
