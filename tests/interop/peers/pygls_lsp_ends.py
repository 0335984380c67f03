"""pygls's language client, as an editor that types and leaves: pygls_lsp_ends.py COMMAND ARGS…"""

import asyncio
import logging
import os
import sys
import time

import attrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import BaseLanguageClient

import foreign

TIME_MAX = 3.0  # seconds from `exit`, or the end of the input, to the end of the process
DOCUMENT = types.VersionedTextDocumentIdentifier(2, "untitled:a")
checks = 0


def same(got, wanted):
    global checks
    foreign.same(got, wanted)
    checks += 1


class Together:
    """Keeps what is written, so that all of it comes to the server in one piece."""

    def __init__(self, editor):
        self.protocol = editor.client.protocol
        self.writer, self.held = self.protocol.writer, []

    def write(self, data):
        self.held.append(data)

    def close(self):
        self.writer.close()

    def __enter__(self):
        self.protocol.set_writer(self)

    def __exit__(self, *_):
        self.protocol.set_writer(self.writer)
        self.writer.write(b"".join(self.held))


class Editor:
    """A server that has been initialized."""

    def __init__(self, incremental=False):
        self.client = BaseLanguageClient("interop", "1")
        self.incremental = incremental
        # Nobody answers it.
        self.client.feature(types.WORKSPACE_CONFIGURATION)(self.configuration)

    @staticmethod
    async def configuration(*_):
        await asyncio.sleep(60)

    async def start(self, configuration=False):
        # The client drops an answer that it has not read yet when the process ends, so the process that it
        # sees ends a little later than the server.
        await self.client.start_io("sh", "-c", '"$@"; code=$?; sleep 0.3; exit $code', "sh", *sys.argv[1:])
        result = await self.client.initialize_async(types.InitializeParams(
            capabilities=types.ClientCapabilities(
                workspace=types.WorkspaceClientCapabilities(configuration=configuration))))
        self.commands = result.capabilities.execute_command_provider
        sync = result.capabilities.text_document_sync
        self.incremental = sync.change == types.TextDocumentSyncKind.Incremental
        self.client.initialized(types.InitializedParams())
        return self

    def open(self, text):
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(
            types.TextDocumentItem("untitled:a", "plaintext", 1, text)))

    def change(self, *changes):
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(DOCUMENT, changes))

    async def hover(self, line, character):
        hover = await self.client.text_document_hover_async(types.HoverParams(
            types.TextDocumentIdentifier("untitled:a"), types.Position(line, character)))
        return hover and hover.contents.value

    async def ended(self, began):
        code = await asyncio.wait_for(self.client._server.wait(), 20)
        return code, time.monotonic() - began < TIME_MAX


async def code_of(request):
    try:
        return await request
    except JsonRpcException as error:
        return error.code


def at(line, start, end, text):
    span = types.Range(types.Position(line, start), types.Position(line, end))
    return types.TextDocumentContentChangePartial(range=span, text=text)


async def changes():
    """Each change is followed at once by a request, which sees it, and no later one."""
    editor = await Editor().start()
    editor.open("one\nword")
    seen = []
    with Together(editor):
        for i in range(100):
            if editor.incremental:
                editor.change(at(0.0, 0.0, 3.0, str(100 + i)))
            else:
                editor.change(types.TextDocumentContentChangeWholeDocument(f"{100 + i}\nword"))
            seen.append(asyncio.ensure_future(editor.hover(0.0, 0.0)))
            # The request is written by its task.
            await asyncio.sleep(0)
    found = await asyncio.gather(*seen)
    same([value.split(":")[0] for value in found], [str(100 + i) for i in range(100)])
    await editor.client.shutdown_async(None)
    began = time.monotonic()
    editor.client.exit(None)
    same(await editor.ended(began), (0, True))


async def ends():
    # Both at once, behind a request that takes four seconds, where the server has one.
    editor = await Editor().start()
    editor.open("line\n" * 400)
    if editor.commands:
        slow = editor.client.workspace_execute_command(types.ExecuteCommandParams("words.count"))
        await asyncio.sleep(0.3)
    began = time.monotonic()
    with Together(editor):
        down = editor.client.shutdown(None)
        editor.client.exit(None)
    same(await asyncio.wrap_future(down), None)
    same(await editor.ended(began), (0, True))
    if editor.commands:
        same(slow.done() and "exited with return code: 0" in str(slow.exception()), True)

    # All in one piece, while the server's request for the configuration is open.
    editor = await Editor().start(configuration=True)
    began = time.monotonic()
    with Together(editor):
        editor.open("word")
        down = editor.client.shutdown(None)
        editor.client.exit(None)
    same(await asyncio.wrap_future(down), None)
    same(await editor.ended(began), (0, True))

    # Exit alone: 1.
    editor = await Editor().start()
    began = time.monotonic()
    editor.client.exit(None)
    same(await editor.ended(began), (1, True))

    # A request after shutdown is refused; then the input ends without exit.
    editor = await Editor().start()
    down = editor.client.shutdown(None)
    refused = code_of(editor.hover(0, 0))
    same([await asyncio.wrap_future(down), await refused], [None, -32600])
    same(await code_of(editor.client.shutdown_async(None)), -32600)
    began = time.monotonic()
    editor.client.protocol.writer.close()
    same(await editor.ended(began), (0, True))


async def work():
    # Its types refuse 0.0, which is an integer in JSON.
    attrs.validators.set_disabled(True)
    await asyncio.wait_for(changes(), 25)
    await asyncio.wait_for(ends(), 25)
    print(f"ok {checks}")
    sys.stdout.flush()
    # Its own stop waits for what nobody answers.
    os._exit(0)


if __name__ == "__main__":
    logging.disable()
    asyncio.run(work())
