// jayson as a server: node jayson_server.cjs tcp|http|ws VERSION
// Prints its port. Over TCP its answers have nothing between them.
'use strict';
const jayson = require('jayson');
const service = require('./service.cjs');
const [kind, version] = process.argv.slice(2);

const methods = {};
for (const [name, run] of Object.entries(service)) {
  methods[name] = (params, done) => run(params).then((result) => done(null, result), done);
}
const server = new jayson.Server(methods, { version: Number(version) });
if (kind === 'ws') {
  const listener = server.websocket({ host: '127.0.0.1', port: 0 });
  listener.on('listening', () => console.log(listener.address().port));
} else {
  const listener = server[kind]();
  listener.listen(0, '127.0.0.1', () => console.log(listener.address().port));
}
