// jayson as a client: node jayson_client.cjs tcp|http|ws URL POINTS…
'use strict';
const { once } = require('node:events');
const { randomUUID } = require('node:crypto');
const jayson = require('jayson/promise');
const { main } = require('./checklist.cjs');
const [kind, url, ...points] = process.argv.slice(2);

main(async () => {
  let client;
  if (kind === 'ws') {
    const ws = new (require('ws'))(url);
    await once(ws, 'open');
    client = jayson.Client.websocket({ ws });
  } else {
    const { hostname, port, pathname } = new URL(url);
    client = jayson.Client[kind]({ hostname, host: hostname, port: Number(port), path: pathname });
    // jayson's TCP client takes a path for that of a Unix socket.
    if (kind === 'tcp') client = jayson.Client.tcp({ host: hostname, port: Number(port) });
  }
  const call = async (method, params) => {
    const answer = await client.request(method, params, randomUUID());
    if (answer.error) throw answer.error;
    return answer.result;
  };
  const notify = (method, params) => client.request(method, params, null);
  const batch = (items) => client.request(items.map(({ method, params, notify }) =>
    client.request(method, params, notify ? null : undefined, false)));
  return { call, notify, batch };
}, points);
