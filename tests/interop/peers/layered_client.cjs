// A client on ws of the example http_layers: node layered_client.cjs URL...
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const WebSocket = require('ws');

let count = 0;
const equal = (seen, wanted) => { count += 1; assert.deepStrictEqual(seen, wanted); };

async function refused(url, origin) {
  const ws = new WebSocket(url, { origin });
  const [, response] = await once(ws, 'unexpected-response');
  equal(response.statusCode, 403);
  response.destroy();
}

async function main() {
  for (const url of process.argv.slice(2)) {
    await refused(url, 'https://evil.example');
    const ws = new WebSocket(url, { origin: 'https://app.example' });
    await once(ws, 'open');
    for (const n of [1, 200, 60_000]) {
      ws.send(JSON.stringify({ jsonrpc: '2.0', method: 'zeros', params: [n], id: n }));
      const [text] = await once(ws, 'message');
      equal(JSON.parse(text), { jsonrpc: '2.0', result: '0'.repeat(n), id: n });
    }
    ws.ping('?');
    equal(String((await once(ws, 'pong'))[0]), '?');
    // The time limit of the layer, 1 s, is not that of a WebSocket.
    await new Promise((done) => setTimeout(done, 1500));
    equal(ws.readyState, WebSocket.OPEN);
    ws.close(1000);
    equal((await once(ws, 'close'))[0], 1000);
    const binary = new WebSocket(url);
    await once(binary, 'open');
    binary.send(Buffer.from('{}'));
    equal((await once(binary, 'close'))[0], 1003);
  }
  console.log('ok', count);
}

setTimeout(() => { throw new Error('too slow'); }, 30_000).unref();
main().catch((error) => { console.error(error); process.exit(1); });
