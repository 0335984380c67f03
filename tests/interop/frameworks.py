"""Examples inside web frameworks, used by curl and by WebSocket libraries of others."""

import functools
import json
import re
import shutil
import signal
import subprocess

from libraries import NODE, PEERS_HERE
from mcp_peers import checks
from suite import PROFILE, PYTHON, TARGET, Skip, case

PAGE, EVIL = "https://app.example", "https://evil.example"


class Example:
    """A running example, which is stopped as by Ctrl-C."""

    def __init__(self, name):
        program = TARGET / PROFILE / "examples" / name
        if not program.exists():
            raise Skip(f"not built: cargo build -p antiphon-tokio --features http,websocket --example {name}")
        if shutil.which("curl") is None:
            raise Skip("there is no curl")
        # It is stopped by an interrupt, which a shell that runs this in the background has its children ignore.
        heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        self.process = subprocess.Popen([program, "0"], stderr=subprocess.PIPE, text=True, preexec_fn=heard)
        self.origin = re.search(r"http://([^/\s]+)", self.process.stderr.readline()).group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        self.process.stderr.close()


def curl(url, method, params, *headers):
    """Posts a call with curl; returns the status, the head and the body."""
    call = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
    lines = [part for header in headers for part in ("-H", header)]
    out = subprocess.run(["curl", "-sSi", "--compressed", "-m", "20", "-d", json.dumps(call), *lines, url],
                         capture_output=True, check=True, text=True).stdout
    head, body = out.replace("\r\n", "\n").split("\n\n", 1)
    return int(head.split()[1]), head.lower(), body


# USE-12 USE-13 SEC-08 USE-07
@case("curl, ws and websockets use methods behind tower-http's layers: around axum's routes, and around the service",
      ("npm:ws", "pypi:websockets"))
def behind_layers():
    with Example("http_layers") as example:
        for path in ("/rpc", "/alone"):
            url = f"http://{example.origin}{path}"
            json_type, text_type = "content-type: application/json", "content-type: text/plain"
            status, head, body = curl(url, "zeros", [5000], json_type, f"origin: {PAGE}")
            assert status == 200 and json.loads(body)["result"] == "0" * 5000, (status, head)
            assert "content-encoding: gzip" in head and f"access-control-allow-origin: {PAGE}" in head, head
            for content in (text_type, json_type):
                status, _, body = curl(url, "zeros", [1], content, f"origin: {EVIL}")
                assert (status, "WebRules::origins" in body) == (403, True), (status, body)
            assert curl(url, "zeros", [1], text_type)[0] == 415
            assert curl(url, "wait", [], json_type)[0] == 504
        urls = [f"ws://{example.origin}{path}" for path in ("/rpc", "/alone")]
        libraries = [[NODE, PEERS_HERE / "layered_client.cjs"], [PYTHON, PEERS_HERE / "layered_client.py"]]
        return ", ".join(checks([*library, *urls]) for library in libraries)
