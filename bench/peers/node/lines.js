"use strict";
// What both Node drivers share: lines of JSON on standard input and output, and the payload (see drivers/lines.py).
const readline = require("node:readline");

const PAYLOAD_BYTES = 200;
const CHECK_MS = 20;

function say(fields) {
  process.stdout.write(JSON.stringify(fields) + "\n");
}

function sayReady(...packages) {
  const versions = { node: process.versions.node };
  for (const name of packages) versions[name] = require(`${name}/package.json`).version;
  say({ ready: true, versions });
}

const sayCalled = (task) => say({ called: String(task), at: clock() });

// Date.now() has milliseconds only.
const clock = () => (performance.timeOrigin + performance.now()) / 1000;

function payload(number) {
  const empty = JSON.stringify({ number, text: "" }).length;
  return { number, text: "x".repeat(PAYLOAD_BYTES - empty) };
}

const payloads = (first, end, more = {}) =>
  Array.from({ length: end - first }, (_, index) => ({ ...more, ...payload(first + index) }));

// Carries out commands by their name in `do`, one after the other; ends the process with the input.
async function serve(does) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    await does[command.do](command);
  }
  process.exit(0);
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

module.exports = { CHECK_MS, clock, payloads, say, sayCalled, sayReady, serve, sleep };
