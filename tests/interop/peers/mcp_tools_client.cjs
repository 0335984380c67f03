// The MCP TypeScript SDK's client against the example mcp_tools: node mcp_tools_client.cjs COMMAND
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
  same(client.getServerVersion(), { name: 'mcp_tools', version: '1.0.0' });
  await client.ping();
  const { tools } = await client.listTools();
  same(tools.map((tool) => tool.name), ['add', 'count_words', 'wait']);
  same(tools[0].inputSchema.required, ['a', 'b']);
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  const text = (result) => result.content[0].text;
  same(text(await call('add', { a: 2, b: 40 })), '42');
  same(text(await call('count_words', { text: 'äß € 😀\n four' })), '4');

  // One that waits holds up nobody, and stops when nobody wants it.
  const stop = new AbortController();
  const slow = call('wait', { milliseconds: 60000 }, { signal: stop.signal }).catch(() => 'given up');
  const sums = await Promise.all(Array.from({ length: 20 }, (_, i) => call('add', { a: i, b: 0.5 })));
  same(sums.map(text), Array.from({ length: 20 }, (_, i) => String(i + 0.5)));
  stop.abort('enough');
  same(await slow, 'given up');
  same(text(await call('wait', { milliseconds: 10 })), 'waited 10 ms');

  for (const wrong of [{}, { a: 1 }, { a: 1, b: 'x' }, { a: 1, b: 2, c: 3 }]) {
    same((await call('add', wrong)).isError, true);
  }
  const unknown = await call('rm', { path: '/' }).catch((error) => error);
  same([unknown.code, /unknown tool/.test(unknown.message)], [-32602, true]);
  await client.close();
  // Each call is in the log, without its arguments.
  same(log.match(/^mcp_tools: "add" with \d+ bytes$/gm).length, 25);
  same(/mcp_tools: "rm" with 12 bytes/.test(log) && !log.includes('four'), true);
  if (!process.exitCode) console.log(`ok ${n}`);
  process.exit();
})().catch((error) => { console.error(error); process.exit(1); });
