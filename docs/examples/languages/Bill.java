// Bills each invoice once, however many of these run and die.
//
// Driver: MariaDB Connector/J (Debian: libmariadb-java, libjna-java). DB_SOCKET and DB_USER say where the server is.
// The tables: invoices.sql.
import java.math.BigDecimal;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;

public class Bill {
    static final String NEXT =
        "SELECT id, SLEEP(0.1) FROM example_languages.invoice WHERE billed = 0 ORDER BY id LIMIT 1";
    static final String BILL =
        "UPDATE example_languages.invoice SET billed = billed + 1, token = ? WHERE id = ?";

    static void run(Connection db, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++)
                statement.setObject(i + 1, values[i]);
            statement.execute();
        }
    }

    // The lease is this session's for 3 seconds; others wait for it, at most 60.
    static BigDecimal acquire(Connection db) throws SQLException {
        try (CallableStatement call = db.prepareCall("{CALL rowlock.rowlock_acquire('billing', 3, 60, ?)}")) {
            call.registerOutParameter(1, Types.DECIMAL);
            call.execute();
            return call.getBigDecimal(1);
        }
    }

    static int next(Connection db) throws SQLException {
        try (PreparedStatement look = db.prepareStatement(NEXT); ResultSet rows = look.executeQuery()) {
            return rows.next() ? rows.getInt(1) : 0;
        }
    }

    static void bill(Connection db) throws SQLException {
        BigDecimal token = acquire(db);
        for (int invoice; (invoice = next(db)) != 0; ) {
            db.setAutoCommit(false);
            // From here to the COMMIT nobody can take the lease over; who has lost it already gets an error.
            run(db, "CALL rowlock.rowlock_fence('billing', ?)", token);
            run(db, BILL, token, invoice);
            db.commit();
            db.setAutoCommit(true);
            run(db, "CALL rowlock.rowlock_renew('billing', ?, 3)", token);
            System.out.println("billed " + invoice + " with token " + token);
        }
        run(db, "CALL rowlock.rowlock_release('billing', ?)", token);
    }

    public static void main(String[] arguments) {
        String url = "jdbc:mariadb://localhost/?localSocket=" + System.getenv("DB_SOCKET");
        try (Connection db = DriverManager.getConnection(url, System.getenv("DB_USER"), "")) {
            bill(db);
        } catch (SQLException error) { // RLTMO: somebody else had it all the time; RLLST: it is lost
            System.err.println("Bill: " + error.getSQLState() + ": " + error.getMessage());
            System.exit(1);
        }
    }
}
