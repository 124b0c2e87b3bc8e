"use strict";
// pg-boss: insert, fetch and complete with arrays. node pgboss.js install|worker|produce URL
// Fan-in is home-made, since this version has none: a row of a table counts down once a batch, the last sends the callback.
const PgBoss = require("pg-boss");
const { Pool } = require("pg");
const { installed, produce, run, sayCalled, sayReady, serve, sleep } = require("./lines");

const FETCH = 1000;
const PAUSE_MS = 5; // after a fetch that got nothing
const COUNT_DOWN = "UPDATE fan_in SET left_over = left_over - $2 WHERE task = $1 RETURNING left_over";
const IS_EMPTY = "SELECT NOT EXISTS (SELECT FROM pgboss.job WHERE name = 'single' AND state < 'completed') AS empty";

async function started(url, options = {}) {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

async function install(url) {
  const boss = await started(url);
  for (const name of ["single", "part", "callback"]) await boss.createQueue(name);
  await installed(url);
}

async function work(url) {
  const boss = await started(url, { max: 8 });
  const pool = new Pool({ connectionString: url, max: 4 });
  fetchAndComplete(boss, "single", FETCH, async () => {});
  fetchAndComplete(boss, "part", 100, async (jobs) => {
    const finished = new Map();
    for (const { data } of jobs) finished.set(data.task, (finished.get(data.task) || 0) + 1);
    for (const [task, count] of finished) {
      const { rows } = await pool.query(COUNT_DOWN, [task, count]);
      if (rows[0].left_over === 0) await boss.send("callback", { task });
    }
  });
  fetchAndComplete(boss, "callback", 1, async ([job]) => sayCalled(job.data.task));
  sayReady("pg-boss");
  await serve({});
}

// work() does the same, but looks twice a second at most.
async function fetchAndComplete(boss, name, batchSize, handle) {
  for (;;) {
    const jobs = await boss.fetch(name, { batchSize });
    if (jobs.length) {
      await handle(jobs);
      await boss.complete(name, jobs.map((job) => job.id));
    } else await sleep(PAUSE_MS);
  }
}

async function insert(url) {
  const boss = await started(url);
  await produce(url, IS_EMPTY, (name, list) => boss.insert(list.map((data) => ({ name, data }))));
}

run({ install, worker: work, produce: insert });
