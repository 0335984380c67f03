// vscode-jsonrpc as the editor of the example lsp_server: node vscode_lsp_editor.cjs PACKAGE COMMAND
'use strict';
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const [name, command] = process.argv.slice(2);
const rpc = require(`${name}/node`);
setTimeout(() => { console.error('timed out'); process.exit(1); }, 25000).unref();

(async () => {
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  const code = async (promise) => (await promise.catch((error) => error)).code;
  const child = spawn(command, { stdio: ['pipe', 'pipe', 'inherit'] });
  const conn = rpc.createMessageConnection(
    new rpc.StreamMessageReader(child.stdout), new rpc.StreamMessageWriter(child.stdin));
  conn.onError(([error]) => { throw error; });
  const asked = [], told = [];
  let ignoreCase = true, waiters = [];
  conn.onRequest('workspace/configuration', async ({ items }) => {
    asked.push(items.map((item) => item.section));
    // What was sent in the meantime has to wait for it.
    await new Promise((done) => setTimeout(done, 100));
    return [ignoreCase];
  });
  conn.onRequest('window/workDoneProgress/create', ({ token }) => { told.push([token, 'created']); });
  conn.onNotification('$/progress', ({ token, value }) => {
    told.push([token, value.kind, value.percentage]);
    waiters.forEach((wake) => wake());
  });
  const until = async (seen) => {
    while (!told.some(seen)) await new Promise((done) => { waiters = [done]; });
  };
  conn.listen();

  same(await code(conn.sendRequest('textDocument/hover', {})), -32002);
  const { capabilities } = await conn.sendRequest('initialize', {
    processId: process.pid, rootUri: null,
    capabilities: { workspace: { configuration: true }, window: { workDoneProgress: true } } });
  same([capabilities.hoverProvider, capabilities.textDocumentSync.change], [true, 2]);
  same(await code(conn.sendRequest('initialize', { capabilities: {} })), -32600);
  same(await code(conn.sendRequest('no/such', {})), -32601);
  same(await code(conn.sendRequest('textDocument/hover', { position: 7 })), -32602);

  const textDocument = { uri: 'untitled:a', languageId: 'plaintext', version: 1, text: 'Äpfel 😀 äpfel\r\nBirne' };
  const hover = async (line, character) => {
    const found = await conn.sendRequest('textDocument/hover', { textDocument, position: { line, character } });
    return found && found.contents.value;
  };
  const change = (...contentChanges) => conn.sendNotification('textDocument/didChange', { textDocument, contentChanges });
  const at = (line, from, to, text) => ({
    range: { start: { line, character: from }, end: { line, character: to } }, text });
  // Sent at once, while the server's request for the configuration is still open.
  conn.sendNotification('initialized', {});
  conn.sendNotification('textDocument/didOpen', { textDocument });
  same(await hover(0, 10), 'äpfel: 2');
  same([asked, await hover(0, 6), await hover(1, 99), await hover(9, 0)],
    [[['words.ignoreCase']], null, 'Birne: 1', 'Birne: 1']);
  ignoreCase = false;
  conn.sendNotification('workspace/didChangeConfiguration', { settings: null });
  same(await hover(0, 10), 'äpfel: 1');

  // 500 changes, each at the end of the text that the one before left, and a hover after every hundredth.
  const seen = [];
  for (let i = 0; i < 500; i += 1) {
    change(at(1, 5 + 2 * i, 5 + 2 * i, ' x'));
    if (i % 100 === 99) seen.push(hover(1, 6));
  }
  same(await Promise.all(seen), [100, 200, 300, 400, 500].map((count) => `x: ${count}`));
  // In their order: the last replaces what the one before it wrote.
  change(at(0, 6, 8, 'fünf'), at(0, 0, 5, 'sechs und'), at(0, 0, 5, 'fünf'));
  same(await hover(0, 1), 'fünf: 2');
  change({ text: Array.from({ length: 400 }, (_, i) => `line ${i}`).join('\n') });
  same(await hover(399, 0), 'line: 400');
  // Wrong params of a notification are logged, and change nothing.
  change({ range: 'all', text: '' });
  same(await hover(399, 0), 'line: 400');

  // It takes four seconds. Others are answered meanwhile, and a cancel ends it and its progress.
  const stop = new rpc.CancellationTokenSource();
  const began = Date.now();
  const slow = code(conn.sendRequest('workspace/executeCommand', { command: 'words.count' }, stop.token));
  await until(([, kind, percentage]) => kind === 'report' && percentage >= 2);
  same(await hover(0, 0), 'line: 400');
  stop.cancel();
  same(await slow, -32800);
  await until(([, kind]) => kind === 'end');
  same([Date.now() - began < 3500, told.slice(0, 2)], [true, [['server-1', 'created'], ['server-1', 'begin', 0]]]);

  // Under the editor's own token, to its end.
  change({ text: 'eins zwei\ndrei' });
  const counted = await conn.sendRequest('workspace/executeCommand', { command: 'words.count', workDoneToken: 7 });
  await until(([token, kind]) => token === 7 && kind === 'end');
  same([counted, told.filter(([token]) => token === 7)],
    [3, [[7, 'begin', 0], [7, 'report', 0], [7, 'report', 50], [7, 'end', undefined]]]);
  same(await code(conn.sendRequest('workspace/executeCommand', { command: 'rm' })), -32602);
  conn.sendNotification('textDocument/didClose', { textDocument });
  same(await hover(0, 0), null);

  same(await conn.sendRequest('shutdown'), null);
  same(await code(conn.sendRequest('textDocument/hover', { textDocument })), -32600);
  // Its input stays open.
  conn.sendNotification('exit');
  same((await once(child, 'exit'))[0], 0);
  console.log(`ok ${n}`);
  process.exit();
})().catch((error) => { console.error(error); process.exit(1); });
