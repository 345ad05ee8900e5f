# tests/cli/migrate_helpers.bash - a schema to migrate and a folder of files, beside helpers.bash.

setup_file() {
    rowlock_setup_file
    export APP="${TEST_SCHEMA}_app"
}

teardown_file() {
    sql_any "DROP DATABASE IF EXISTS \`$APP\`"
    rowlock_teardown_file
}

# migrate_setup FOLDER: both are new for each test; `seen` notes what was run, in order.
migrate_setup() {
    DIR=$1
    mkdir "$DIR"
    sql_any "DROP DATABASE IF EXISTS \`$APP\`; CREATE DATABASE \`$APP\`;
             CREATE TABLE \`$APP\`.seen (id INT AUTO_INCREMENT PRIMARY KEY, what TEXT)"
}

# file NAME LINE...
file() {
    local name=$1
    shift
    printf '%s\n' "$@" >"$DIR/$name"
}

# see TEXT: a statement that notes it.
see() {
    echo "INSERT INTO seen (what) VALUES ('$1');"
}

seen() {
    mariadb --defaults-file="$TEST_OPTIONS" -N -B --raw -e "SELECT IFNULL(GROUP_CONCAT(what ORDER BY id SEPARATOR ' '), '-') FROM \`$APP\`.seen"
}

# migrate [VERB] [OPTION...]: on the test's schema and folder.
migrate() {
    rl migrate "$@" --into="$APP" "$DIR"
}
