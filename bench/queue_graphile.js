// graphile-worker, as bench/queue.py measures it: queue_graphile.js - SOCKET_FOLDER ROLE ...
'use strict';
const { EventEmitter } = require('node:events');
const { run, makeWorkerUtils, Logger } = require('graphile-worker');
const { Pool } = require('pg');
const { main, at } = require('./queue_process.js');

const pool = new Pool({ host: at, user: 'postgres', database: 'postgres', max: 24 });
pool.on('error', (error) => { console.error(error); process.exit(2); });
pool.on('connect', (client) => { client.on('error', () => {}); });
const logger = new Logger(() => (level, message) => {
  if (level === 'error') { console.error(message); process.exit(2); }
});
let utils;
let runner;

main({
  async prepare() {
    await pool.query('DROP SCHEMA IF EXISTS graphile_worker CASCADE');
    utils = await makeWorkerUtils({ pgPool: pool, logger });
    await utils.migrate();
  },
  async connect() {
    utils = await makeWorkerUtils({ pgPool: pool, logger });
    await pool.query('SELECT 1');
  },
  put(payloads) {
    return payloads.length === 1
      ? utils.addJob('job', { text: payloads[0] })
      : utils.addJobs(payloads.map((text) => ({ identifier: 'job', payload: { text } })));
  },
  putLater(text, delay) {
    return utils.addJob('job', { text }, delay ? { runAt: new Date(Date.now() + delay) } : {});
  },
  async work(concurrency, started, done) {
    const events = new EventEmitter();
    events.on('job:complete', done);
    runner = await run({
      pgPool: pool,
      logger,
      events,
      concurrency,
      noHandleSignals: true,
      taskList: { job: async (payload) => { started(payload.text); } },
    });
  },
  async close() {
    await runner?.stop();
  },
});
