// use.cpp SOCKET SCHEMA - the same in C++: option structs are zeroed and filled.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>

#include <rowlock/rowlock.h>
#include <rowlock/rowlock_mysql.h>

namespace
{

rowlock_error err;

void good(rowlock_status status, const char *what)
{
    if (status != ROWLOCK_OK) {
        std::printf("%s: %s: %s\n", what, rowlock_status_name(status), err.message);
        std::exit(1);
    }
}

void sql(MYSQL *mysql, const char *statement)
{
    if (mysql_query(mysql, statement) != 0) {
        std::printf("%s: %s\n", statement, mysql_error(mysql));
        std::exit(1);
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3)
        return 64;
    rowlock_client_options client_options = rowlock_client_options();
    client_options.socket = argv[1];
    client_options.user = "root";
    client_options.schema = argv[2];
    rowlock_client *opened = nullptr;
    good(rowlock_client_open(&client_options, &opened, &err), "open");
    std::unique_ptr<rowlock_client, void (*)(rowlock_client *)> client(opened,
                                                                       rowlock_client_close);
    std::unique_ptr<MYSQL, void (*)(MYSQL *)> mysql(mysql_init(nullptr), mysql_close);
    if (!mysql_real_connect(mysql.get(), nullptr, "root", nullptr, argv[2], 0, argv[1], 0)) {
        std::printf("connect: %s\n", mysql_error(mysql.get()));
        return 1;
    }
    sql(mysql.get(), "CREATE TABLE IF NOT EXISTS consumer_work (n INT NOT NULL)");
    for (rowlock_mode mode : {ROWLOCK_OPTIMISTIC, ROWLOCK_PESSIMISTIC}) {
        const char *name = mode == ROWLOCK_OPTIMISTIC ? "consumer lease" : "consumer row";
        rowlock_acquire_options options = rowlock_acquire_options();
        options.mode = mode;
        options.wait_ms = 5000;
        options.ttl_ms = 10000;
        rowlock_hold *hold = nullptr;
        good(rowlock_acquire(client.get(), name, &options, &hold, &err), name);
        good(rowlock_hold_check(hold), "check");
        sql(mysql.get(), "START TRANSACTION");
        good(rowlock_fence(hold, mysql.get(), &err), "fence");
        sql(mysql.get(), "INSERT INTO consumer_work VALUES (0)");
        sql(mysql.get(), "COMMIT");
        good(rowlock_release(hold, &err), "release");
    }
    sql(mysql.get(), "START TRANSACTION");
    good(rowlock_tx_acquire(client.get(), mysql.get(), "consumer tx", nullptr, &err), "tx_acquire");
    sql(mysql.get(), "COMMIT");

    // What goes wrong is said, not thrown.
    rowlock_hold *none = nullptr;
    if (rowlock_acquire(client.get(), "", nullptr, &none, &err) != ROWLOCK_INVALID || none ||
        err.status != ROWLOCK_INVALID || !*err.message) {
        std::puts("an empty name was not refused");
        return 1;
    }
    std::puts("all good");
    return 0;
}
