// json-rpc-2.0 (npm) as a client that calls on and on, and passes on what a call has brought:
//   node json_rpc_2_0_loop.cjs client|both
// over its standard input and output, one message a line. `both` is its class that is a server too.
'use strict';
const readline = require('node:readline');
const { JSONRPCClient, JSONRPCServer, JSONRPCServerAndClient } = require('json-rpc-2.0');

const send = async (message) => { process.stdout.write(JSON.stringify(message) + '\n'); };
const client = new JSONRPCClient(send);
const both = process.argv[2] === 'both' && new JSONRPCServerAndClient(new JSONRPCServer(), client);
const receive = (message) => (both ? both.receiveAndSend(message) : client.receive(message));
// What is no JSON does not reach the library.
const parsed = (line) => { try { return JSON.parse(line); } catch { return []; } };
readline.createInterface({ input: process.stdin })
  .on('line', (line) => receive(parsed(line)))
  .on('close', () => process.exit());

(async () => {
  for (let brought = null; ;) {
    brought = await client.timeout(2000).request('next', [brought]).catch(() => null);
  }
})();
