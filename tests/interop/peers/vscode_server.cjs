// vscode-jsonrpc as the server of `antiphon-peer client stdio:lsp:node vscode_server.cjs PACKAGE`.
'use strict';
const rpc = require(`${process.argv[2]}/node`);
const conn = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin), new rpc.StreamMessageWriter(process.stdout));
conn.onRequest('add', (a, b) => a + b);
conn.onRequest('named', (params) => params);
conn.onRequest('fail', () => new rpc.ResponseError(9, 'failed', { x: 1 }));
conn.onRequest('ask', async (method) => conn.sendRequest(method, 'q'));
conn.onRequest('slow', (token) => new Promise((done) => {
  token.onCancellationRequested(() => done(new rpc.ResponseError(-32800, 'given up')));
}));
conn.onRequest('burst', async (count) => {
  for (let i = 0; i < count; i += 1) await conn.sendNotification('tick', i);
  return count;
});
conn.onNotification('exit', () => process.exit(0));
conn.listen();
