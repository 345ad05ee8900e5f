// BullMQ, as bench/queue.py measures it: queue_bullmq.js - SOCKET ROLE ...
'use strict';
const { Queue, Worker } = require('bullmq');
const { main, at } = require('./queue_process.js');

const NAME = 'bench';
const connection = { path: at, maxRetriesPerRequest: null };
const removed = { removeOnComplete: true, removeOnFail: true };
let queue;
let worker;

main({
  async prepare() {
    queue = new Queue(NAME, { connection });
    await queue.obliterate({ force: true });
    await queue.close();
  },
  async connect() {
    queue = new Queue(NAME, { connection });
    await queue.waitUntilReady();
  },
  put(payloads) {
    return payloads.length === 1
      ? queue.add('job', payloads[0], removed)
      : queue.addBulk(payloads.map((data) => ({ name: 'job', data, opts: removed })));
  },
  putLater(payload, delay) {
    return queue.add('job', payload, { ...removed, delay });
  },
  async work(concurrency, started, done) {
    worker = new Worker(NAME, async (job) => { started(job.data); }, { connection, concurrency });
    worker.on('completed', done);
    worker.on('error', (error) => { console.error(error); process.exit(2); });
    await worker.waitUntilReady();
  },
  async close() {
    await worker?.close();
    await queue.close();
  },
});
