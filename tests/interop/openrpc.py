"""What `rpc.discover` says, read by software that knows nothing else of the server."""

import json
import subprocess
import sys
import tempfile
import urllib.request

from libraries import NODE, PEERS_HERE
from mcp_peers import checks
from suite import PROFILE, TARGET, Skip, case, node_env

CALCULATOR = TARGET / PROFILE / "examples" / "calculator_server"


class Server:
    """The calculator over HTTP, on a port that was free."""

    def __enter__(self):
        if not CALCULATOR.exists():
            raise Skip("not built: cargo build -p antiphon-tokio --features http,openrpc --example calculator_server")
        self.process = subprocess.Popen([CALCULATOR, "0"], stderr=subprocess.PIPE, text=True)
        return self.process.stderr.readline().split()[-1]

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


# EXT-06 EXT-07 EXT-08
@case("the official meta-schema of OpenRPC takes the document of calculator_server",
      ("npm:@open-rpc/meta-schema", "npm:ajv"))
def openrpc_meta_schema():
    with Server() as url, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        body = json.dumps({"jsonrpc": "2.0", "method": "rpc.discover", "id": 1}).encode()
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as reply:
            document = json.loads(reply.read())["result"]
        assert len(document["methods"]) == 4, document
        json.dump(document, file)
        file.flush()
        return checks([NODE, PEERS_HERE / "openrpc_check.cjs", file.name])


# EXT-06 SRV-09 GEN-12
@case("a client that knows only the document calls every method of calculator_server")
def openrpc_client():
    with Server() as url:
        return checks([sys.executable, PEERS_HERE / "openrpc_client.py", url])
