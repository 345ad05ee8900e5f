<?php
// Bills each invoice once, however many of these run and die.
//
// Driver: PDO (Debian: php-mysql). DB_SOCKET and DB_USER say where the server is. The tables: invoices.sql.
const NEXT = 'SELECT id, SLEEP(0.1) FROM example_languages.invoice WHERE billed = 0 ORDER BY id LIMIT 1';
const BILL = 'UPDATE example_languages.invoice SET billed = billed + 1, token = ? WHERE id = ?';

function run(PDO $db, string $sql, array $values = []): void
{
    $db->prepare($sql)->execute($values);
}

function bill(PDO $db): void
{
    // The lease is this session's for 3 seconds; others wait for it, at most 60.
    run($db, "CALL rowlock.rowlock_acquire('billing', 3, 60, @token)");
    $token = $db->query('SELECT @token')->fetchColumn();
    while (($invoice = $db->query(NEXT)->fetchColumn()) !== false) {
        $db->beginTransaction();
        // From here to the COMMIT nobody can take the lease over; who has lost it already gets an error.
        run($db, "CALL rowlock.rowlock_fence('billing', ?)", [$token]);
        run($db, BILL, [$token, $invoice]);
        $db->commit();
        run($db, "CALL rowlock.rowlock_renew('billing', ?, 3)", [$token]);
        echo "billed $invoice with token $token\n";
    }
    run($db, "CALL rowlock.rowlock_release('billing', ?)", [$token]);
}

try {
    // Prepared at the server: what is bound stays bound.
    bill(new PDO('mysql:unix_socket=' . getenv('DB_SOCKET'), getenv('DB_USER'), '', [PDO::ATTR_EMULATE_PREPARES => false]));
} catch (PDOException $error) {
    [$sqlstate, , $text] = $error->errorInfo;
    fwrite(STDERR, "bill.php: $sqlstate: $text\n"); // RLTMO: somebody else had it all the time; RLLST: it is lost
    exit(1);
}
