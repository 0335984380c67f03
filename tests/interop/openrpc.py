"""What `rpc.discover` says, read by software that knows nothing else of the server."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import urllib.request

from libraries import NODE, PEERS_HERE
from mcp_peers import checks
from suite import MODULES, PROFILE, TARGET, Skip, case, node_env
from wire import run_once

EXAMPLES = TARGET / PROFILE / "examples"


def built(name):
    if not (EXAMPLES / name).exists():
        raise Skip(f"not built: cargo build -p antiphon-tokio --features http,openrpc --example {name}")
    return EXAMPLES / name


class Server:
    """An example over HTTP, on a port that was free."""

    def __init__(self, name="calculator_server"):
        self.program = built(name)

    def __enter__(self):
        self.process = subprocess.Popen([self.program, "0"], stderr=subprocess.PIPE, text=True)
        return self.process.stderr.readline().split()[-1]

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


DISCOVER = json.dumps({"jsonrpc": "2.0", "method": "rpc.discover", "id": 1}).encode()


def discovered(url):
    """The document of a server over HTTP."""
    request = urllib.request.Request(url, DISCOVER, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        document = json.loads(reply.read())["result"]
    assert len(document["methods"]) >= 4, document
    return document


def discovered_of(name):
    """The document of an example, over HTTP or over its standard input and output."""
    if name != "calculator":
        with Server(name) as url:
            return discovered(url)
    code, out, _ = run_once([built(name)], DISCOVER + b"\n", timeout=20)
    assert code == 0, code
    return json.loads(out)["result"]


# EXT-06 EXT-07 EXT-08
@case("the official meta-schema of OpenRPC takes the document of {form}",
      ("npm:@open-rpc/meta-schema", "npm:ajv"), forms=("calculator_server", "dual_version", "calculator"))
def openrpc_meta_schema(name):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(discovered_of(name), file)
        file.flush()
        return checks([NODE, PEERS_HERE / "openrpc_check.cjs", file.name])


# EXT-06 EXT-07 USE-36
@case("redocly lint finds no error in the document of {form}", ("npm:@redocly/cli",),
      forms=("calculator_server", "dual_version", "calculator"))
def openrpc_redocly(name):
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(discovered_of(name), file)
        file.flush()
        linted = subprocess.run(
            [NODE, MODULES / "@redocly" / "cli" / "bin" / "cli.js", "lint", "--format", "json", file.name],
            env={**os.environ, **node_env(), **quiet}, capture_output=True, text=True, timeout=60, check=False)
    found = json.loads(linted.stdout)
    # A licence of the service is nothing that a server knows.
    others = [problem for problem in found["problems"] if problem["ruleId"] != "info-license"]
    assert linted.returncode == 0 and found["totals"]["errors"] == 0 and not others, others
    return f"{len(found['problems'])} warnings"


# EXT-06 SRV-09 GEN-12
@case("a client that knows only the document calls every method of calculator_server")
def openrpc_client():
    with Server() as url:
        return checks([sys.executable, PEERS_HERE / "openrpc_client.py", url])


# EXT-06 EXT-07 GEN-12
@case("a client made by @open-rpc/generator calls every method of calculator_server",
      ("npm:@open-rpc/generator", "npm:@open-rpc/client-js", "npm:@open-rpc/schema-utils-js", "npm:typescript"))
def openrpc_generator():
    with Server() as url, tempfile.TemporaryDirectory() as folder:
        document = pathlib.Path(folder, "openrpc.json")
        document.write_text(json.dumps(discovered(url)))
        generator = MODULES / "@open-rpc" / "generator" / "build" / "cli.js"
        made = subprocess.run(
            [NODE, generator, "generate", "-t", "client", "-l", "typescript", "-n", "calc", "-d", document, "-o", folder],
            env={**os.environ, **node_env()}, capture_output=True, timeout=60, check=False)
        client = pathlib.Path(folder, "client", "typescript", "src", "index.ts")
        assert made.returncode == 0 and client.exists(), made
        return checks([NODE, PEERS_HERE / "openrpc_generated.cjs", client, url])


# EXT-06 EXT-07
@case("@open-rpc/mock-server serves the document of calculator_server", ("npm:@open-rpc/mock-server",))
def openrpc_mock_server():
    with Server() as url, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        document = discovered(url)
        json.dump(document, file)
        file.flush()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [NODE, MODULES / "@open-rpc" / "mock-server" / "build" / "cli.js", "-d", file.name, "-p", str(port)]
        mock = subprocess.Popen(command, env={**os.environ, **node_env()},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            while "Server Started" not in (line := mock.stdout.readline()):
                assert line, "it ended before it listened"
            return called(f"http://127.0.0.1:{port}", document)
        finally:
            mock.kill()
            mock.wait()
            mock.stdout.close()


def called(url, document):
    """Calls each method of the document by name and by position, and with a wrong value."""
    values = {"number": 8, "string": "eight"}
    calls = 0
    for method in document["methods"]:
        named = {param["name"]: values[param["schema"]["type"]] for param in method["params"]}
        wrong = [*named.values()]
        wrong[-1] = "not a number"
        for params, member in (named, "result"), ([*named.values()], "result"), (wrong, "error"):
            body = json.dumps({"jsonrpc": "2.0", "method": method["name"], "params": params, "id": 1}).encode()
            request = urllib.request.Request(url, body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as reply:
                assert member in json.loads(reply.read()), (method["name"], params)
            calls += 1
    return f"{calls} checks"
