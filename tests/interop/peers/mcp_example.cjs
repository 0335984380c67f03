// The MCP TypeScript SDK's client, for the checks of an example server: node CHECKS COMMAND. Prints how many checks were
// made.
'use strict';
const assert = require('node:assert');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
setTimeout(() => { console.error('timed out'); process.exit(1); }, 25000).unref();

async function run(talk, checkLog) {
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  let log = '';
  const transport = new StdioClientTransport({ command: process.argv[2], stderr: 'pipe' });
  transport.stderr.on('data', (data) => { log += data; });
  const client = new Client({ name: 'interop', version: '1' }, { capabilities: {} });
  client.onerror = (error) => { console.error('client error', error); process.exitCode = 1; };
  await client.connect(transport);
  await client.ping();
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  const text = (result) => result.content[0].text;

  // While a tool waits other calls are served, and it stops when it is cancelled.
  const stop = new AbortController();
  const slow = call('wait', { milliseconds: 60000 }, { signal: stop.signal }).catch(() => 'given up');
  const sums = await Promise.all(Array.from({ length: 20 }, (_, i) => call('add', { a: i, b: 0.5 })));
  same(sums.map(text), Array.from({ length: 20 }, (_, i) => String(i + 0.5)));
  stop.abort('enough');
  same(await slow, 'given up');

  await talk({ client, same, call, text });
  await client.close();
  checkLog(log, same);
  if (!process.exitCode) console.log(`ok ${n}`);
  process.exit();
}

// `talk` calls the tools; `checkLog` then looks at what the server has written to standard error.
exports.main = (talk, checkLog) => {
  run(talk, checkLog).catch((error) => { console.error(error); process.exit(1); });
};
