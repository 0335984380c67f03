// rpc-websockets as a client: node rpc_websockets_client.cjs URL POINTS…
// It has no batches, and a request from the server is a mere event to it.
'use strict';
const { once } = require('node:events');
const { Client } = require('rpc-websockets');
const { main } = require('./checklist.cjs');
const [url, ...points] = process.argv.slice(2);

main(async () => {
  const client = new Client(url, { reconnect: false });
  await once(client, 'open');
  return {
    call: (method, params) => client.call(method, params),
    notify: (method, params) => client.notify(method, params),
    end: () => { client.close(); return once(client, 'close'); },
  };
}, points);
