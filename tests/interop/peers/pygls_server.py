"""A language server on pygls, over stdio."""

import asyncio

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("pygls-interop", "1")


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
def did_open(ls, params):
    lines = params.text_document.text.splitlines()
    marks = [
        types.Diagnostic(
            range=types.Range(types.Position(number, 0), types.Position(number, 3)), message="bug")
        for number, line in enumerate(lines) if line.startswith("BUG")]
    ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(
        uri=params.text_document.uri, diagnostics=marks))


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(ls, params):
    document = ls.workspace.get_text_document(params.text_document.uri)
    word = document.word_at_position(params.position)
    return types.Hover(contents=f"the word {word}") if word else None


@server.feature("interop/ask")
async def ask(ls, _):
    params = types.ConfigurationParams(items=[types.ConfigurationItem(section="interop")])
    answer = await ls.workspace_configuration_async(params)
    ls.window_log_message(types.LogMessageParams(types.MessageType.Log, f"answered {len(answer)}"))
    return len(answer)


@server.feature("interop/slow")
async def slow(ls, _):
    await asyncio.sleep(30)
    return "too late"


server.start_io()
