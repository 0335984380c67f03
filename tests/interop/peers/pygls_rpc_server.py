"""pygls's JSON-RPC server: pygls_rpc_server.py stdio|tcp|ws. Prints its port, except over stdio."""

import asyncio
import logging
import re
import sys

from pygls.exceptions import JsonRpcException
from pygls.protocol import JsonRPCProtocol, default_converter
from pygls.server import JsonRPCServer

import foreign
from pygls_client import plain

server = JsonRPCServer(JsonRPCProtocol, default_converter)
service = foreign.Service()


def offer(name):
    @server.feature(name)
    async def run(params):
        try:
            return await getattr(service, name)(plain(params))
        except foreign.Failed as failed:
            raise JsonRpcException(failed.message, failed.code, failed.data) from failed


for one in foreign.METHODS:
    offer(one)


@server.feature("callback")
async def callback(params):
    return plain(await asyncio.wrap_future(server.protocol.send_request(*params)))


class Announce(logging.Handler):
    """Prints the port, which the library tells only in its log."""

    def emit(self, record):
        if (found := re.match(r"Serving on \('[^']*', (\d+)\)", record.getMessage())):
            print(found.group(1), flush=True)


if sys.argv[1] == "stdio":
    logging.disable()
    server.start_io()
else:
    logger = logging.getLogger("pygls.server")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(Announce())
    getattr(server, f"start_{sys.argv[1]}")("127.0.0.1", 0)
