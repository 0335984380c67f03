// rpc-websockets as a server: node rpc_websockets_server.cjs
// Prints its port. `emit [n]` sends n of its events, which are no JSON-RPC messages, to the clients
// that have asked for them with `rpc.on ["tick"]`.
'use strict';
const { Server } = require('rpc-websockets');
const service = require('./service.cjs');

const server = new Server({ host: '127.0.0.1', port: 0 });
for (const [name, run] of Object.entries(service)) server.register(name, (params) => run(params));
server.event('tick');
server.register('emit', ([n]) => {
  for (let i = 0; i < n; i += 1) server.emit('tick', i);
  return n;
});
server.on('listening', () => console.log(server.wss.address().port));
