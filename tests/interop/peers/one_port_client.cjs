// One port of ours for everything, on Node's own HTTP and on ws: one_port_client.cjs HTTP-URL TOKEN FOREIGN-ORIGIN
// Prints `ok` and how many connections there were.
const assert = require("assert");
const http = require("http");
const WebSocket = require("ws");

const [url, token, foreign] = process.argv.slice(2);
const body = JSON.stringify({jsonrpc: "2.0", method: "subtract", params: [42, 23], id: 1});
const bearer = {authorization: `Bearer ${token}`};
const ports = new Set();

function ask(agent, method, path, headers, text) {
    return new Promise((done, failed) => {
        const request = http.request(new URL(path, url), {agent, method, headers}, reply => {
            ports.add(reply.socket.localPort);
            let whole = "";
            reply.on("data", part => whole += part).on("end", () => done([reply.statusCode, whole]));
        });
        request.on("error", failed).end(text);
    });
}

function open(agent, options, protocols) {
    return new Promise((done, failed) => {
        const socket = new WebSocket(url.replace("http", "ws"), protocols, {agent, ...options});
        socket.on("upgrade", reply => ports.add(reply.socket.localPort));
        socket.on("unexpected-response", (request, reply) => {
            ports.add(reply.socket.localPort);
            reply.resume().on("end", () => done([reply.statusCode]));
        });
        socket.on("open", () => socket.send(body));
        socket.on("message", text => {
            const result = JSON.parse(text).result;
            socket.on("close", code => done([101, result, socket.protocol, code]));
            socket.close(1000);
        });
        socket.on("error", failed);
    });
}

async function work() {
    const json = {"content-type": "application/json"};
    const steps = {
        post: async agent => assert.strictEqual(
            JSON.parse((await ask(agent, "POST", "/", {...json, ...bearer}, body))[1]).result, 19),
        unknown: async agent => assert.strictEqual((await ask(agent, "POST", "/", json, body))[0], 401),
        health: async agent => assert.deepStrictEqual(await ask(agent, "GET", "/health", {}), [200, "ok\n"]),
        refused: async agent => assert.deepStrictEqual(await open(agent, {}, []), [401]),
        evil: async agent => assert.deepStrictEqual(
            await open(agent, {headers: {...bearer, origin: foreign}}, []), [403]),
    };
    const names = Object.keys(steps);
    for (let first = 0; first < names.length; first++) {
        for (const back of [false, true]) {
            const order = names.map((_, at) => names[(first + at) % names.length]);
            if (back) order.reverse();
            ports.clear();
            const agent = new http.Agent({keepAlive: true, maxSockets: 1});
            for (const name of order) await steps[name](agent);
            const opened = await open(agent, {headers: bearer}, ["jsonrpc"]);
            assert.deepStrictEqual(opened, [101, 19, "jsonrpc", 1000]);
            assert.strictEqual(ports.size, 1, `${order}: ${[...ports]}`);
            agent.destroy();
        }
    }
    assert.deepStrictEqual(await open(undefined, {}, ["jsonrpc", `token.${token}`]), [101, 19, "jsonrpc", 1000]);
    assert.deepStrictEqual(await open(undefined, {}, ["jsonrpc", "token.wrong"]), [401]);
    console.log("ok", names.length * 2);
}

// A refused handshake leaves its connection open, which is not to be waited for.
work().then(() => process.exit(0)).catch(error => { console.error(error); process.exit(1); });
