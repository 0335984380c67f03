// The server that README.md describes, by json-rpc-2.0 (npm): one message a line on standard input and output.
'use strict';
const readline = require('node:readline');
const { JSONRPCServer } = require('json-rpc-2.0');

const server = new JSONRPCServer({ errorListener: () => {} });
const methods = {
  subtract: (params) => (Array.isArray(params) ? params[0] - params[1] : params.minuend - params.subtrahend),
  sum: (params) => params.reduce((sum, number) => sum + number, 0),
  get_data: () => ['hello', 5],
  echo: (params) => params,
  update: () => null,
  notify_hello: () => null,
  notify_sum: () => null,
};
for (const [name, run] of Object.entries(methods)) server.addMethod(name, run);
// The library takes text, so bytes that are none are replaced before it sees them.
readline.createInterface({ input: process.stdin, crlfDelay: Infinity }).on('line', async (line) => {
  if (!line.trim()) return;
  const answer = await server.receiveJSON(line);
  if (answer) process.stdout.write(JSON.stringify(answer) + '\n');
});
