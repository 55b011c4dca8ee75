// Perfetto's own trace processor: node trace_processor.mjs FOLDER TRACE, with a JSON list of SQL
// queries on stdin. Prints a JSON list of their rows. The folder holds the WebAssembly build.
//
// Perfetto builds it for a web worker of its page. Here its script runs in Node as if in one: it is
// given the bytes that it would fetch, and hands out the object that the page would send messages.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const PIECE_BYTES = 1 << 24;
const [folder, trace] = process.argv.slice(2).map((path) => resolve(path));

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location ??= { href: pathToFileURL(folder).href + "/" };
globalThis.wasmBytes = readFileSync(join(folder, "trace_processor.wasm"));
const warn = console.warn;
console.warn = (...words) => {
  if (!String(words[0]).includes("Unexpected QueryResult field")) warn(...words);
};

let script = readFileSync(join(folder, "engine_bundle.node.js"), "utf8");
for (const [theirs, ours] of [
  ["this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;"],
  ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: globalThis.wasmBytes,"],
  ["const wasmBridge = new", "const wasmBridge = globalThis.bridge = new"],
]) {
  if (!script.includes(theirs)) throw new Error(`engine_bundle.node.js lacks ${theirs}`);
  script = script.replace(theirs, ours);
}
vm.runInThisContext(script);
const { EngineBase } = await import(pathToFileURL(join(folder, "engine.mjs")).href);

const { bridge } = globalThis;
class Engine extends EngineBase {
  mode = "WASM";
  id = "tests";
  rpcSendRequestBytes(bytes) {
    port.onmessage({ data: bytes });
  }
}
const engine = new Engine();
const port = { postMessage: (bytes) => engine.onRpcResponseBytes(bytes) };
bridge.initialize(port);
while (!bridge.reqBufferAddr) await setTimeout(5); // WebAssembly compiles

const bytes = new Uint8Array(readFileSync(trace));
for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
  await engine.parse(bytes.subarray(at, at + PIECE_BYTES));
}
await engine.notifyEof();

const plain = (value) => (typeof value === "bigint" ? Number(value) : value);
const answers = [];
for (const query of JSON.parse(readFileSync(0, "utf8"))) {
  const result = await engine.query(query);
  const columns = result.columns();
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((column) => plain(row.get(column))));
  }
  answers.push(rows);
}
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
