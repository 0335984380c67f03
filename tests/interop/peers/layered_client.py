"""A client on websockets of the example http_layers.

    layered_client.py URL...    prints `ok` and the number of checks
"""

import json
import sys

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

TIMEOUT = 20


def main(urls):
    count = 0
    for url in urls:
        try:
            connect(url, origin="https://evil.example", open_timeout=TIMEOUT)
            raise AssertionError("an evil origin was let in")
        except InvalidStatus as refused:
            assert refused.response.status_code == 403, refused
        with connect(url, origin="https://app.example", open_timeout=TIMEOUT, compression="deflate") as websocket:
            for n in (1, 200, 60_000):
                websocket.send(json.dumps({"jsonrpc": "2.0", "method": "zeros", "params": [n], "id": n}))
                assert json.loads(websocket.recv(TIMEOUT)) == {"jsonrpc": "2.0", "result": "0" * n, "id": n}
            assert websocket.ping().wait(TIMEOUT)
        assert websocket.close_code == 1000, websocket.close_code
        with connect(url, open_timeout=TIMEOUT) as websocket:
            websocket.send(b"{}")
            try:
                websocket.recv(TIMEOUT)
                raise AssertionError("binary was answered")
            except ConnectionClosed as closed:
                assert closed.rcvd.code == 1003, closed
        count += 7
    print("ok", count)


if __name__ == "__main__":
    main(sys.argv[1:])
