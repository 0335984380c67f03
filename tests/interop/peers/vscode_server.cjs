// vscode-jsonrpc as the server of `antiphon-peer client stdio:lsp:node vscode_server.cjs PACKAGE`.
'use strict';
const rpc = require(`${process.argv[2]}/node`);
const service = require('./service.cjs');
const conn = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin), new rpc.StreamMessageWriter(process.stdout));
const failed = ({ code, message, data }) => new rpc.ResponseError(code, message, data);
// Its star handler is given a list or an object as it came; a handler by name is given arguments.
conn.onRequest((method, params, token) => {
  if (!service[method]) return failed({ code: rpc.ErrorCodes.MethodNotFound, message: `no ${method}` });
  const given_up = new Promise((done) => token.onCancellationRequested(
    () => done(failed({ code: -32800, message: 'given up' }))));
  return Promise.race([service[method](params).catch(failed), given_up]);
});
conn.onRequest('callback', (method, params) => conn.sendRequest(
  method, rpc.ParameterStructures.byPosition, ...params));
conn.onRequest('burst', async (count) => {
  for (let i = 0; i < count; i += 1) await conn.sendNotification('tick', i);
  return count;
});
conn.onNotification('exit', () => process.exit(0));
conn.onNotification((method, params) => service[method](params));
conn.listen();
