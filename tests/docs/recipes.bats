#!/usr/bin/env bats
# docs/recipes.md: every block runs unchanged, in its order, and prints what the page says. A recipe needs the blocks
# before the first recipe, and no other recipe.

load ../cli/helpers

setup_file() {
    : "${ROWLOCK_BUILD:?set ROWLOCK_BUILD to the build folder}"
    rowlock_setup_file
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
    export ROOT PAGE="$ROOT/docs/recipes.md"
    # The page uses these names: the test fails on a server that has them already.
    sql_any "CREATE DATABASE rowlock; DROP DATABASE rowlock; CREATE DATABASE shop; DROP DATABASE shop"
    export OURS=yes
    export ROWLOCK_URL="mysql://root@localhost/?socket=$ROWLOCK_TEST_SOCKET"
    mkdir "$TEST_DIR/bin"
    ln -s "$ROWLOCK" "$TEST_DIR/bin/rowlock"
    ln -s "$(command -v mariadb)" "$TEST_DIR/bin/mysql"
    export PATH="$TEST_DIR/bin:$PATH"
    rowlock init -q --procedures
    mkdir -p "$TEST_DIR/before/.private/mine"
    cd "$TEST_DIR/before"
    socket=$ROWLOCK_TEST_SOCKET
    eval "$(sed -nE 's/^    (printf .* MYSQL_HOME=.*)/\1/p' "$PAGE")" # as the page tells mysql of the server
    [ -n "$MYSQL_HOME" ]
    recipe 0
}

teardown_file() {
    "$ROOT/tools/cluster" remove "$TEST_DIR/three" 3>&-
    [ -z "${OURS:-}" ] || sql_any "DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS rowlock"
    rowlock_teardown_file
}

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# blocks NUMBER: the blocks of that recipe as files 1.sh, 2.c, ... in this folder; 0: those before the first recipe.
blocks() {
    awk -v wanted="$1" '
        /^```/ {
            kind = (kind == "") ? substr($0, 4) : ""
            if (kind != "" && recipe + 0 == wanted + 0)
                file = (++count) "." kind
            next
        }
        kind != "" && recipe + 0 == wanted + 0 { print >file }
        kind == "" && /^## [0-9]+\. / { recipe = $2 }' "$PAGE"
}

# Prints the texts after "prints: ": a pattern for each line of the output.
patterns() {
    sed -nE '/(#|--|\/\*) prints: /{ s@^.* prints: @@; s@ \*/$@@; p; }' "$1"
}

# program BLOCK: makes ./program of the block's statements, with the headers of its first line, and of the frame that the
# page describes.
program() {
    local sanitize=()
    [ -z "${ROWLOCK_SANITIZE:-}" ] || sanitize=(-fsanitize="$ROWLOCK_SANITIZE")
    {
        head -n 1 "$1" | grep '^/\* <' | grep -o '<[^>]*>' | sed 's/^/#include /'
        cat <<'C'
#include <mysql.h>

#include "example.h"

static rowlock_error err;

static void sql(MYSQL *mysql, const char *text)
{
    if (mysql_query(mysql, text) == 0)
        return;
    fprintf(stderr, "%s: %s\n", text, mysql_error(mysql));
    exit(1);
}

static void recipe(rowlock_client *client, MYSQL *mysql)
{
    (void)sql;
    (void)mysql;
    (void)client;
C
        cat "$1"
        cat <<'C'
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    rowlock_client *client = NULL;
    MYSQL *mysql = mysql_init(NULL);
    must(rowlock_client_open(&options, &client, &err), &err);
    mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, argv[1]);
    mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, "client");
    expect(mysql_real_connect(mysql, NULL, NULL, NULL, NULL, 0, NULL, 0) != NULL, "it is connected");
    recipe(client, mysql);
    mysql_close(mysql);
    rowlock_client_close(client);
    return 0;
}
C
    } >program.c
    # shellcheck disable=SC2086 # flags are words
    "${CC:-cc}" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wunused-result -Werror \
        "${sanitize[@]}" -I"$ROOT/include" -I"$ROOT/docs/examples" \
        ${MARIADB_CFLAGS:-$(pkg-config --cflags libmariadb)} program.c -o program \
        -L"$ROWLOCK_BUILD" -lrowlock -Xlinker -rpath -Xlinker "$ROWLOCK_BUILD" \
        ${MARIADB_LIBS:-$(pkg-config --libs libmariadb)} -pthread
}

# run_block FILE: runs it; a shell line or a statement that fails ends the test.
run_block() {
    case $1 in
        *.sh) sh -eu "$1" ;;
        *.sql) mysql -N <"$1" ;;
        *.c) program "$1" && ./program "$TEST_OPTIONS" ;;
        # A unit of systemd: tests/cli/leader.bats starts the command as that does.
        # The options of a server: tools/cluster gives them.
        *.ini) grep -qE '^(ExecStart=/usr/bin/rowlock lead |server_id = 1)' "$1" ;;
        *) echo "of which language is $1?" >&2 && false ;;
    esac
}

# prints_as_said FILE: the file `output` is as that block says.
prints_as_said() {
    local wanted=() got=() i
    mapfile -t wanted < <(patterns "$1")
    mapfile -t got <output
    [ "${#got[@]}" -eq "${#wanted[@]}" ]
    for i in "${!wanted[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        [[ ${got[i]} == ${wanted[i]} ]] || { echo "'${got[i]}' is not '${wanted[i]}'" && false; }
    done
}

# recipe NUMBER: runs its blocks, at least one.
recipe() {
    local block
    blocks "$1"
    for block in [1-9].*; do
        echo "== recipe $1, $block"
        cat "$block"
        echo "-- prints"
        run_block "$block" >output </dev/null || { cat output && false; }
        cat output
        prints_as_said "$block"
    done
}

@test "recipes.md: each recipe has all three languages, and what Redisson and Curator call it" {
    [ "$(grep -cE '^## [0-9]+\. ' "$PAGE")" -eq 15 ]
    [ "$(grep -c '^## [0-9]' "$PAGE")" -eq 15 ]
    for number in {1..14}; do
        echo "== recipe $number"
        grep -q "^## $number\. " "$PAGE"
        awk -v wanted="$number" '/^## / { recipe = $2 } recipe + 0 == wanted + 0' "$PAGE" >text
        for part in '```sh' '```c' '```sql' 'Redisson' 'Curator' 'Differences: ' 'examples/'; do
            # (Recipe 14 has no SQL: it needs several servers.)
            [ "$number$part" != '14```sql' ] || continue
            grep -qF -- "$part" text || { echo "no $part" && false; }
        done
    done
}

@test "recipes.md: 1. one at a time" {
    recipe 1
}

@test "recipes.md: 2. a row lock" {
    recipe 2
}

@test "recipes.md: 3. readers and writers" {
    recipe 3
}

@test "recipes.md: 4. at most N at a time" {
    recipe 4
}

@test "recipes.md: 5. several names at once" {
    recipe 5
}

@test "recipes.md: 6. in order" {
    recipe 6
}

@test "recipes.md: 7. a write that an old holder must not make" {
    recipe 7
}

@test "recipes.md: 8. read, work, change" {
    recipe 8
}

@test "recipes.md: 9. when all parts are done" {
    recipe 9
}

@test "recipes.md: 10. begin together, end together" {
    recipe 10
}

@test "recipes.md: 11. one instance in the fleet" {
    recipe 11
}

@test "recipes.md: 12. ask a holder to give way" {
    recipe 12
}

@test "recipes.md: 13. once in a period" {
    recipe 13
}

# The page's db1, db2 and db3 are three servers of this test's own.
three_servers() {
    local urls i
    "$ROOT/tools/cluster" start quorum "$TEST_DIR/three" 3>&- >/dev/null
    mapfile -t urls < <("$ROOT/tools/cluster" urls "$TEST_DIR/three")
    for i in 1 2 3; do
        sed "s#mysql://root@db$i#${urls[i - 1]}#g" "$PAGE" >page
        PAGE=$TEST_DIR/page.$i
        mv page "$PAGE"
    done
}

@test "recipes.md: 14. a lock on several servers" {
    three_servers
    unset ROWLOCK_URL
    recipe 14
}

@test "recipes.md: 15. a queue of work" {
    recipe 15
}

@test "recipes.md: no block leaves a lock behind" {
    [ "$(rowlock ls --json | jq length)" -eq 0 ]
}
