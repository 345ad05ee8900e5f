// Bills each invoice once, however many of these run and die.
//
// Driver: go-sql-driver/mysql (Debian: golang-github-go-sql-driver-mysql-dev). DB_SOCKET and DB_USER say where the
// server is. The tables: invoices.sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	_ "github.com/go-sql-driver/mysql"
)

const (
	next = "SELECT id FROM example_languages.invoice WHERE billed = 0 AND SLEEP(0.1) = 0 ORDER BY id LIMIT 1"
	bill = "UPDATE example_languages.invoice SET billed = billed + 1, token = ? WHERE id = ?"
)

func billOne(ctx context.Context, db *sql.Conn, token uint64, invoice int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// From here to the COMMIT nobody can take the lease over; who has lost it already gets an error.
	if _, err = tx.ExecContext(ctx, "CALL rowlock.rowlock_fence('billing', ?)", token); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, bill, token, invoice); err != nil {
		return err
	}
	return tx.Commit()
}

func billAll(ctx context.Context, db *sql.Conn) error {
	// The lease is this session's for 3 seconds; others wait for it, at most 60.
	if _, err := db.ExecContext(ctx, "CALL rowlock.rowlock_acquire('billing', 3, 60, @token)"); err != nil {
		return err
	}
	var token uint64
	if err := db.QueryRowContext(ctx, "SELECT @token").Scan(&token); err != nil {
		return err
	}
	for {
		var invoice int
		err := db.QueryRowContext(ctx, next).Scan(&invoice)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err == nil {
			err = billOne(ctx, db, token, invoice)
		}
		if err == nil {
			_, err = db.ExecContext(ctx, "CALL rowlock.rowlock_renew('billing', ?, 3)", token)
		}
		if err != nil {
			return err
		}
		fmt.Printf("billed %d with token %d\n", invoice, token)
	}
	_, err := db.ExecContext(ctx, "CALL rowlock.rowlock_release('billing', ?)", token)
	return err
}

func main() {
	ctx := context.Background()
	pool, err := sql.Open("mysql", os.Getenv("DB_USER")+"@unix("+os.Getenv("DB_SOCKET")+")/")
	if err == nil {
		defer pool.Close()
		var db *sql.Conn // one session for all of it: the lease's bell is the session's
		if db, err = pool.Conn(ctx); err == nil {
			err = billAll(ctx, db)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bill.go:", err) // the text says what to do
		os.Exit(1)
	}
}
