// The MCP TypeScript SDK's client, which closes: node mcp_end_client.cjs TOOL COMMAND
// TOOL is one that runs until it is cancelled. The SDK ends the server's input, and sends a signal 2 s later.
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const [tool, command] = process.argv.slice(2);
const TIME_MAX = 3000;
const ENDLESS = { progress: { steps: 1000, delayMs: 20 }, wait: { milliseconds: 60000 } };
setTimeout(() => { console.error('timed out'); process.exit(1); }, 25000).unref();

(async () => {
  let n = 0;
  const same = (a, b) => { assert.deepStrictEqual(a, b); n += 1; };
  // With the tool cancelled, and while it still runs.
  for (const cancels of [true, false]) {
    const transport = new StdioClientTransport({ command });
    const client = new Client({ name: 'interop', version: '1' }, { capabilities: {} });
    client.onerror = (error) => { console.error('client error', error); process.exitCode = 1; };
    await client.connect(transport);
    const { tools } = await client.listTools();
    same(tools.some(({ name }) => name === tool), true);
    const stop = new AbortController();
    const call = client.callTool({ name: tool, arguments: ENDLESS[tool] }, undefined,
      { signal: stop.signal }).catch(() => 'given up');
    await client.ping();
    if (cancels) {
      stop.abort('enough');
      same(await call, 'given up');
      await client.ping();
    }
    const ended = once(transport._process, 'exit');
    const began = Date.now();
    await client.close();
    // By itself: an exit code, and no signal.
    const status = await ended;
    same([status, Date.now() - began < TIME_MAX], [[0, null], true]);
    same(await call, 'given up');
  }
  if (!process.exitCode) console.log(`ok ${n}`);
  process.exit();
})().catch((error) => { console.error(error); process.exit(1); });
