# tests/cli/migrate_helpers.bash - a schema to migrate and a folder of files, beside helpers.bash.

teardown_file() {
    sql_any "$(sql_any "SELECT CONCAT('DROP DATABASE \`', schema_name, '\`;') FROM information_schema.schemata
        WHERE schema_name LIKE '${TEST_SCHEMA}\\_app%'")"
    rowlock_teardown_file
}

# migrate_setup: makes a schema and a folder for each test; the table `seen` notes what was run, in order.
migrate_setup() {
    APP="${TEST_SCHEMA}_app${1:-}"
    DIR=files
    mkdir "$DIR"
    sql_any "DROP DATABASE IF EXISTS \`$APP\`; CREATE DATABASE \`$APP\`;
             CREATE TABLE \`$APP\`.seen (id INT AUTO_INCREMENT PRIMARY KEY, what TEXT)"
}

# file NAME LINE...: writes that file.
file() {
    printf '%s\n' "${@:2}" >"$DIR/$1"
}

# see TEXT: prints a statement that notes it.
see() {
    echo "INSERT INTO seen (what) VALUES ('$1');"
}

seen() {
    mariadb --defaults-file="$TEST_OPTIONS" -N -B --raw -e "SELECT IFNULL(GROUP_CONCAT(what ORDER BY id SEPARATOR ' '), '-') FROM \`$APP\`.seen"
}

# migrate [VERB] [OPTION...]: the command, on the test's schema and folder.
migrate() {
    rl migrate "$@" --into="$APP" "$DIR"
}
