#!/usr/bin/env python3
"""Bills each invoice once, however many of these run and die.

Driver: PyMySQL (Debian: python3-pymysql). DB_SOCKET and DB_USER say where the server is. The tables: invoices.sql.
"""
import os
import sys

import pymysql

NEXT = "SELECT id, SLEEP(0.1) FROM example_languages.invoice WHERE billed = 0 ORDER BY id LIMIT 1"
BILL = "UPDATE example_languages.invoice SET billed = billed + 1, token = %s WHERE id = %s"


def main():
    db = pymysql.connect(unix_socket=os.environ["DB_SOCKET"], user=os.environ["DB_USER"], autocommit=True)
    cursor = db.cursor()
    # The lease is this session's for 3 seconds; others wait for it, at most 60.
    cursor.execute("CALL rowlock.rowlock_acquire('billing', 3, 60, @token)")
    cursor.execute("SELECT @token")
    (token,) = cursor.fetchone()
    while cursor.execute(NEXT):
        invoice, _ = cursor.fetchone()
        db.begin()
        # From here to the COMMIT nobody can take the lease over; who has lost it already gets an error.
        cursor.execute("CALL rowlock.rowlock_fence('billing', %s)", (token,))
        cursor.execute(BILL, (token, invoice))
        db.commit()
        cursor.execute("CALL rowlock.rowlock_renew('billing', %s, 3)", (token,))
        print(f"billed {invoice} with token {token}", flush=True)
    cursor.execute("CALL rowlock.rowlock_release('billing', %s)", (token,))


try:
    main()
except pymysql.MySQLError as error:
    sys.exit(f"bill.py: {error.args[-1]}")  # PyMySQL keeps no SQLSTATE; the text says what to do
