"""The core as a WebAssembly module in Node, on a WebSocket to a real server."""

from libraries import NODE
from suite import PEER, ROOT, TARGET, Skip, case, node_env
from wire import Process, run_once

MODULE = (TARGET / "embedded" / "wasm32-unknown-unknown" / "release"
          / "antiphon_embedded_wasm.wasm")
EXAMPLE = ROOT / "tests" / "embedded" / "wasm" / "websocket.mjs"


# ARC-21
@case("the WebAssembly core on a WebSocket: calls, is called back, gives up", ("npm:ws",))
def wasm_websocket():
    if not MODULE.exists():
        raise Skip("the module is not built: .ci/no_std")
    server = Process([PEER, "server", "ws://127.0.0.1:0/rpc"])
    url = server.stderr_line(r"^listening (\S+)$").group(1)
    code, out, err = run_once([NODE, EXAMPLE, MODULE, url], env=node_env(), timeout=30)
    assert code == 0, (code, out, err.decode()[-3000:])
    return out.decode().strip()
