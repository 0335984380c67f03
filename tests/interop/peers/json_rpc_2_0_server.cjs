// json-rpc-2.0 (npm) as a server, and over WebSocket and stdio as a client at the same time:
//   node json_rpc_2_0_server.cjs http|ws|stdio
// Prints its port, except over stdio.
'use strict';
const http = require('node:http');
const readline = require('node:readline');
const { JSONRPCClient, JSONRPCErrorException, JSONRPCServer, JSONRPCServerAndClient } = require('json-rpc-2.0');
const service = require('./service.cjs');

function filled(server) {
  for (const [name, run] of Object.entries(service)) {
    server.addMethod(name, (params) => run(params).catch(({ code, message, data }) => {
      throw new JSONRPCErrorException(message, code, data);
    }));
  }
  return server;
}

function twoWay(write) {
  const both = new JSONRPCServerAndClient(
    filled(new JSONRPCServer({ errorListener: () => {} })), new JSONRPCClient(async (message) => write(JSON.stringify(message))));
  both.addMethod('callback', ([method, params]) => both.request(method, params));
  return both;
}

const OPEN = {
  http() {
    const rpc = filled(new JSONRPCServer({ errorListener: () => {} }));
    const server = http.createServer(async (request, reply) => {
      let body = '';
      for await (const chunk of request.setEncoding('utf8')) body += chunk;
      const answer = await rpc.receiveJSON(body);
      reply.writeHead(answer ? 200 : 204, answer ? { 'content-type': 'application/json' } : {});
      reply.end(answer ? JSON.stringify(answer) : undefined);
    });
    server.listen(0, '127.0.0.1', () => console.log(server.address().port));
  },
  ws() {
    const server = new (require('ws').WebSocketServer)({ host: '127.0.0.1', port: 0 });
    server.on('connection', (ws) => {
      const both = twoWay((text) => ws.send(text));
      ws.on('message', (data) => both.receiveAndSend(JSON.parse(data)));
    });
    server.on('listening', () => console.log(server.address().port));
  },
  stdio() {
    const both = twoWay((text) => process.stdout.write(text + '\n'));
    readline.createInterface({ input: process.stdin }).on('line', (line) => both.receiveAndSend(JSON.parse(line)));
  },
};
OPEN[process.argv[2]]();
