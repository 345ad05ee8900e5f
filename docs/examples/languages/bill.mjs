// Bills each invoice once, however many of these run and die.
//
// Driver: mysql2 (npm install mysql2). DB_SOCKET and DB_USER say where the server is. The tables: invoices.sql.
import mysql from 'mysql2/promise';

const NEXT = 'SELECT id, SLEEP(0.1) FROM example_languages.invoice WHERE billed = 0 ORDER BY id LIMIT 1';
const BILL = 'UPDATE example_languages.invoice SET billed = billed + 1, token = ? WHERE id = ?';

async function bill(db) {
  // The lease is this session's for 3 seconds; others wait for it, at most 60.
  await db.query("CALL rowlock.rowlock_acquire('billing', 3, 60, @token)");
  const [[{ token }]] = await db.query('SELECT @token AS token');
  for (;;) {
    const [[invoice]] = await db.query(NEXT);
    if (!invoice) break;
    await db.beginTransaction();
    // From here to the COMMIT nobody can take the lease over; who has lost it already gets an error.
    await db.execute("CALL rowlock.rowlock_fence('billing', ?)", [token]);
    await db.execute(BILL, [token, invoice.id]);
    await db.commit();
    await db.execute("CALL rowlock.rowlock_renew('billing', ?, 3)", [token]);
    console.log(`billed ${invoice.id} with token ${token}`);
  }
  await db.execute("CALL rowlock.rowlock_release('billing', ?)", [token]);
}

// One session, not a pool: the lease's bell is the session's. Tokens do not fit a number for ever.
const db = await mysql.createConnection({
  socketPath: process.env.DB_SOCKET, user: process.env.DB_USER, supportBigNumbers: true });
try {
  await bill(db);
} catch (error) {
  // RLTMO: somebody else had it all the time; RLLST: it is lost
  console.error(`bill.mjs: ${error.sqlState ?? error.code}: ${error.message}`);
  process.exitCode = 1;
} finally {
  db.destroy();
}
