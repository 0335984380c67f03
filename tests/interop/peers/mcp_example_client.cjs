// The MCP TypeScript SDK's client against the example server: node mcp_example_client.cjs COMMAND
'use strict';
const assert = require('node:assert');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
setTimeout(() => { console.error('timed out'); process.exit(1); }, 25000).unref();

(async () => {
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  let log = '';
  const transport = new StdioClientTransport({ command: process.argv[2], stderr: 'pipe' });
  transport.stderr.on('data', (data) => { log += data; });
  const client = new Client({ name: 'interop', version: '1' }, { capabilities: {} });
  client.onerror = (error) => { console.error('client error', error); process.exitCode = 1; };
  await client.connect(transport);
  same(client.getServerVersion().name, 'antiphon-example');
  await client.ping();
  same((await client.listTools()).tools.map((tool) => tool.name), ['add', 'wait']);
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  const text = (result) => result.content[0].text;

  // Side by side: the one that waits holds up nobody, and is given up when nobody wants it.
  const stop = new AbortController();
  const slow = call('wait', { milliseconds: 60000 }, { signal: stop.signal }).catch(() => 'given up');
  const sums = await Promise.all(Array.from({ length: 20 }, (_, i) => call('add', { a: i, b: 0.5 })));
  same(sums.map(text), Array.from({ length: 20 }, (_, i) => String(i + 0.5)));
  stop.abort('enough');
  same(await slow, 'given up');
  const waits = await Promise.all([30, 20, 10].map((milliseconds) => call('wait', { milliseconds })));
  same(waits.map(text), ['waited', 'waited', 'waited']);

  for (const wrong of [{}, { a: 1 }, { a: 1, b: 'x' }, { a: [], b: 1 }]) {
    same((await call('add', wrong)).isError, true);
  }
  same((await call('wait', { milliseconds: 60001 })).isError, true);
  same((await call('rm', { path: '/' }).catch((error) => error)).code, -32602);
  await client.close();
  // What was run, what was refused, and what does not exist is in the log.
  same(log.match(/mcp: audit: add .* runs/g).length, 20);
  same(log.match(/mcp: audit: .* is refused/g).length, 5);
  same(/mcp: audit: "rm" was called and is no tool/.test(log), true);
  if (!process.exitCode) console.log(`ok ${n}`);
  process.exit();
})().catch((error) => { console.error(error); process.exit(1); });
