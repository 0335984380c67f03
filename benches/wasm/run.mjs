#!/usr/bin/env node
// What reading a message costs as WebAssembly, beside the best that serde_json can do in the same module.
// usage: run.mjs [--count | --raw]
//
// --count  counts instructions, in the fuel of an interpreter (count/): these repeat, times do not
// --raw    prints the nanoseconds of every round, for benches/table.py
//
// Builds this folder for wasm32-unknown-unknown and runs it under Node: fifteen rounds, each reads every item with
// antiphon, alone and within a conversation, and with serde_json in turn. Prints the medians, and the median of the ratios
// of each round with the spread of its middle half. Item 14 is row 8 of benches/table.py.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROUNDS = 15;
const WARM_ROUNDS = 5;
const ROUND_MILLISECONDS = 15;
const TARGET = "wasm32-unknown-unknown";

const [option, ...others] = process.argv.slice(2);
const counts = option === "--count";
const isRaw = option === "--raw";
if (others.length > 0 || (option !== undefined && !counts && !isRaw)) {
  console.error("usage: run.mjs [--count | --raw]");
  process.exit(2);
}
const here = dirname(fileURLToPath(import.meta.url));
const targetDir = resolve(process.env.CARGO_TARGET_DIR ?? join(here, "target"));
const cargo = (folder, ...rest) => {
  const done = spawnSync("cargo", rest, { cwd: folder, stdio: "inherit" });
  if (done.status !== 0) {
    console.error(`run.mjs: cargo ${rest[0]} failed`);
    process.exit(1);
  }
};
const options = ["-q", "--release", "--locked", "--target-dir", targetDir];
cargo(here, "build", ...options, "--target", TARGET);
const modulePath = join(targetDir, TARGET, "release", "antiphon_bench_wasm.wasm");
if (counts) {
  cargo(join(here, "count"), "run", ...options, "--", modulePath);
  process.exit(0);
}
const bytes = readFileSync(modulePath);
const wasm = new WebAssembly.Instance(new WebAssembly.Module(bytes), {}).exports;

const nameOf = (index) =>
  new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.name(index), wasm.name_len(index)));

// Nanoseconds a message, the middle of the runs, so that those which were interrupted do not matter; what makes ready for
// the next run is not counted.
const measure = (index) => {
  const spans = [];
  for (let spent = 0; spent < ROUND_MILLISECONDS; ) {
    const begun = performance.now();
    wasm.run(index);
    spans.push(performance.now() - begun);
    spent += spans.at(-1);
    wasm.between(index);
  }
  return (at(spans, 0.5) * 1e6) / wasm.count(index);
};
const at = (values, share) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * share)];

const KINDS = ["read", "receive", "serde"];
const items = [];
for (let index = 0; index < wasm.operations(); index += KINDS.length) {
  items.push({ index, times: KINDS.map(() => []) });
}
for (let round = -WARM_ROUNDS; round < ROUNDS; round += 1) {
  for (const { index, times } of items) {
    const measured = KINDS.map((_, kind) => measure(index + kind));
    if (round >= 0) {
      measured.forEach((time, kind) => times[kind].push(time));
    }
  }
}
if (isRaw) {
  for (const { index, times } of items) {
    const name = nameOf(index).replace("parse ", "");
    KINDS.forEach((kind, at) => console.log([`${kind} ${name}`, ...times[at]].join("\t")));
  }
  process.exit(0);
}
console.log(`node ${process.version}, V8 ${process.versions.v8}, ${ROUNDS} rounds; nanoseconds a message, ratios to serde`);
console.log("     read   receive     serde   read  middle half  receive  middle half  item");
for (const { index, times } of items) {
  const medians = times.map((values) => at(values, 0.5).toFixed(0).padStart(9)).join(" ");
  const ratios = [0, 1].map((kind) => {
    const all = times[kind].map((time, round) => time / times[2][round]);
    const middle = `${at(all, 0.25).toFixed(2)}–${at(all, 0.75).toFixed(2)}`;
    return `${at(all, 0.5).toFixed(2).padStart(6)}  ${middle.padStart(11)}`;
  });
  console.log(`${medians} ${ratios.join("   ")}  ${nameOf(index).replace("parse ", "")}`);
}
