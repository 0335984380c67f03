// vscode-jsonrpc as an editor that leaves and that types: node vscode_lsp_ends.cjs PACKAGE WHAT COMMAND
// WHAT is `end`: shutdown and exit in every order; or `changes`: changes followed at once by a request.
'use strict';
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { Writable } = require('node:stream');
const [name, what, command] = process.argv.slice(2);
const rpc = require(`${name}/node`);
const TIME_MAX = 3000;
setTimeout(() => { console.error('timed out'); process.exit(1); }, 25000).unref();
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// A server that has been initialized. The library writes a header and a body each by itself, and so the server
// would read them one by one; what is sent inside `together` comes to it in one piece.
class Editor {
  constructor(encode) {
    this.child = spawn(command, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.ended = once(this.child, 'exit');
    this.held = null;
    const stream = new Writable({ write: (chunk, _, done) => {
      if (this.held) this.held.push(chunk);
      else this.child.stdin.write(chunk);
      done();
    } });
    const contentTypeEncoder = { name: 'application/json', encode: async (message) => Buffer.from(encode(JSON.stringify(message))) };
    this.conn = rpc.createMessageConnection(new rpc.StreamMessageReader(this.child.stdout),
      new rpc.StreamMessageWriter(stream, encode ? { charset: 'utf-8', contentTypeEncoder } : 'utf-8'));
    this.conn.onError(([error]) => { throw error; });
    // The library gives out what it has read one by one, also after the end of the stream.
    this.closed = new Promise((done) => this.conn.onClose(() => setTimeout(done, 300, { closed: true })));
    this.asked = new Promise((asked) => {
      // Nobody answers it.
      this.conn.onRequest('workspace/configuration', () => { asked(); return new Promise(() => {}); });
    });
    this.conn.onRequest('window/workDoneProgress/create', () => null);
    this.conn.listen();
  }

  async start(configuration = false) {
    const { capabilities } = await this.conn.sendRequest('initialize', { processId: null, rootUri: null,
      capabilities: { workspace: { configuration }, window: { workDoneProgress: true } } });
    this.capabilities = capabilities;
    this.conn.sendNotification('initialized', {});
    return this;
  }

  async together(send) {
    this.held = [];
    const sent = send();
    await pause(50);
    const all = Buffer.concat(this.held);
    this.held = null;
    this.child.stdin.write(all);
    return sent;
  }

  // How a request ends: its result, or the code of its error.
  ask(method, ...params) {
    return this.conn.sendRequest(method, ...params).then((result) => ({ result }), (error) => ({ error: error.code }));
  }

  open(text) {
    this.conn.sendNotification('textDocument/didOpen', { textDocument: { uri: 'untitled:a', languageId: 'plaintext', version: 1, text } });
  }

  hover(line, character) {
    return this.ask('textDocument/hover', { textDocument: { uri: 'untitled:a' }, position: { line, character } });
  }

  // The exit code, and whether the process has ended in time.
  async end(began) {
    const [code] = await this.ended;
    return [code, Date.now() - began < TIME_MAX];
  }
}

const CHECKS = {
  async end(same) {
    let editor, began, down, hovered;
    // Leaves with code 0 in time, with what `before` sends, shutdown and exit all in one piece.
    const leave = async (before = () => {}) => {
      began = Date.now();
      [hovered, down] = await editor.together(() => [before(), editor.ask('shutdown'), editor.conn.sendNotification('exit')]);
      same(await down, { result: null });
      same(await editor.end(began), [0, true]);
    };
    // A request that takes 10 ms for each line, where the server has one; otherwise one that is over soon.
    const run = (lines) => {
      editor.open('line\n'.repeat(lines));
      const asked = editor.capabilities.executeCommandProvider
        ? editor.ask('workspace/executeCommand', { command: 'words.count' }) : editor.hover(0, 0);
      return Promise.race([asked, editor.closed]);
    };

    // Behind a request that runs: it is still answered if it ends soon, and holds nothing up if it does not.
    for (const [lines, wanted] of [[50, 50], [400, undefined]]) {
      editor = await new Editor().start();
      const running = run(lines);
      await pause(200);
      await leave();
      const answer = await running;
      if (editor.capabilities.executeCommandProvider) same(answer.result, wanted);
      else same(answer.result.contents.value, 'line: 4 letters');
    }

    // While the server's request for the configuration is open, and nobody answers it.
    editor = await new Editor().start(true);
    await editor.asked;
    await leave();
    // At once, before the server has read anything of it.
    editor = await new Editor().start(true);
    await leave(() => { editor.open('word'); return Promise.race([editor.hover(0, 0), editor.closed]); });
    same(/^word: /.test((await hovered).result?.contents.value), true);

    // Exit alone: 1, also while a request runs.
    editor = await new Editor().start();
    const running = run(400);
    await pause(200);
    began = Date.now();
    editor.conn.sendNotification('exit');
    same(await editor.end(began), [1, true]);
    await running;

    // A request after shutdown is refused, in one piece with it and later; then the input ends without exit.
    editor = await new Editor().start();
    [down, hovered] = await editor.together(() => [editor.ask('shutdown'), editor.hover(0, 0)]);
    same([await down, await hovered], [{ result: null }, { error: -32600 }]);
    same(await editor.hover(0, 0), { error: -32600 });
    same(await editor.ask('shutdown'), { error: -32600 });
    began = Date.now();
    editor.child.stdin.end();
    same(await editor.end(began), [0, true]);
  },

  async changes(same) {
    // The library writes 0; other editors write 0.0 and 0e0, which are the same integer.
    let written = 0;
    const asFloats = (text) => text.replace(/"(line|character)":(\d+)/g,
      (_, key, value) => `"${key}":${value}${written++ % 2 ? '.0' : 'e0'}`);
    for (const encode of [null, asFloats]) {
      const editor = await new Editor(encode).start();
      const incremental = editor.capabilities.textDocumentSync.change === 2;
      editor.open('one\nword');
      let text = 'one';
      const asked = await editor.together(() => Array.from({ length: 100 }, (_, i) => {
        // Each change replaces what the change before it wrote, so one that is lost or late is seen.
        const range = { start: { line: 0, character: 0 }, end: { line: 0, character: text.length } };
        text = `w${i}`;
        editor.conn.sendNotification('textDocument/didChange', {
          textDocument: { uri: 'untitled:a', version: i + 2 },
          contentChanges: [incremental ? { range, text } : { text: `${text}\nword` }] });
        return editor.hover(0, 0);
      }));
      const words = (await Promise.all(asked)).map(({ result }) => result.contents.value.split(':')[0]);
      same(words, Array.from({ length: 100 }, (_, i) => `w${i}`));
      const { result } = await editor.hover(1, 0);
      same(result.contents.value.split(':')[0], 'word');
      same(encode === null || written > 200, true);
      same(await editor.ask('shutdown'), { result: null });
      const began = Date.now();
      editor.conn.sendNotification('exit');
      same(await editor.end(began), [0, true]);
    }
  },
};

(async () => {
  let n = 0;
  await CHECKS[what]((a, b) => { assert.deepStrictEqual(a, b); n += 1; });
  console.log(`ok ${n}`);
  process.exit();
})().catch((error) => { console.error(error); process.exit(1); });
