# Do the checks find what they are for? Each is given something wrong.

bats_require_minimum_version 1.5.0
export BATS_VERBOSE_RUN=yes

setup_file() {
    export TOOLS="$BATS_TEST_DIRNAME/../../tools"
}

plant() { # PATH LINES...
    mkdir -p "$BATS_TEST_TMPDIR/$(dirname "$1")"
    printf '%s\n' "${@:2}" >"$BATS_TEST_TMPDIR/$1"
}

finds() { # WHAT
    run -1 "$TOOLS/check-layers" "$BATS_TEST_TMPDIR"
    [[ $output == *"$1"* ]]
}

@test "layers: a clean tree passes" {
    plant src/db/a.c '#include <mysql.h>' '#include "base/text.h"' '/* printf(x) SELECT */'
    plant src/cli/b.c '#include "rowlock/rowlock.h"' 'int f(void) { printf("SELECTED\n"); exit(1); }'
    plant src/api/c.c '#include "kind/lease.h"' '#include "rowlock/rowlock_mysql.h"' 'x = "a string with system(1)";'
    run -0 "$TOOLS/check-layers" "$BATS_TEST_TMPDIR"
}

@test "layers: what points up, is named outside of its place, is SQL in a string, or a call that nobody makes" {
    # What is said, and the file with its line.
    while IFS='|' read -r what file line; do
        plant "$file" "$line"
        finds "$what"
        rm "$BATS_TEST_TMPDIR/$file"
    done <<'CASES'
src/base may not include db/conn.h|src/base/a.c|#include "db/conn.h"
src/cli may not include base/text.h|src/cli/a.c|#include "base/text.h"
src/wait may not include keep/keeper.h|src/wait/a.c|#include "keep/keeper.h"
may include mysql.h|src/api/a.c|#include <mysql.h>
may include mysqld_error.h|src/api/a.c|#include <mysqld_error.h>
may include rowlock/rowlock_mysql.h|src/kind/lease.c|#include "rowlock/rowlock_mysql.h"
SQL belongs into sql/|src/kind/a.c|const char *s = "SELECT id FROM resource";
SQL belongs into sql/|src/kind/a.c|const char *s = "x \" FOR UPDATE";
SQL belongs into sql/|src/kind/a.c|run(c, "COMMIT");
the library never prints|src/keep/a.c|int f(void) { return fprintf(stderr, "x"); }
CASES
    for call in 'strcpy(a, b)' 'sprintf(a, "x")' 'system ("x")' 'rand()' 'atoi(a)' 'gets(a)'; do
        plant src/cli/a.c "int f(void) { return $call; }"
        finds "nobody calls ${call%%[ (]*}()"
    done
    rm -r "$BATS_TEST_TMPDIR/src/cli"
    for call in 'printf("x")' 'exit(1)' 'abort()' 'signal(1, f)' 'sigaction(1, 0, 0)' 'puts(a)'; do
        plant src/keep/a.c "int f(void) { return $call; }"
        finds "the library never calls ${call%%(*}()"
    done
    rm "$BATS_TEST_TMPDIR/src/keep/a.c"
    plant src/misc/a.c 'int x;'
    finds "not one of the layers"
}

@test "exports: something that no header declares, and something missing" {
    printf 'int rowlock_secret(void) { return 1; }\n' >"$BATS_TEST_TMPDIR/a.c"
    printf 'ROWLOCK_0 { global: rowlock_*; local: *; };\n' >"$BATS_TEST_TMPDIR/map"
    cc -shared -fPIC -Wl,-soname,librowlock.so.9 -Wl,--version-script="$BATS_TEST_TMPDIR/map" \
        -o "$BATS_TEST_TMPDIR/a.so" "$BATS_TEST_TMPDIR/a.c"
    run -1 "$TOOLS/check-exports" "$BATS_TEST_TMPDIR/a.so"
    [[ $output == *$'rowlock_secret\n^ exported, but not declared'* ]]
    [[ $output == *$'rowlock_version_read\n'*$'\n^ declared, but not exported'* ]]
    [[ $output == *"the SONAME is librowlock.so.9"* ]]
}

@test "counting: crashed, empty, skipped and failed programs" {
    while IFS='|' read -r expected end script; do
        run "-$expected" "$TOOLS/run-tap" "$BATS_TEST_TMPDIR" record bash -c "$script"
        [ "${lines[-1]}" = "# end $end" ]
    done <<'CASES'
0|1 0 1|echo "ok 1 - a"; echo "ok 2 - b # SKIP why"
1|1 1 0|echo "ok 1 - a"; kill -SEGV $$
1|0 1 0|true
1|1 1 0|echo "ok 1 - a"; echo "not ok 2 - b"
77|0 0 1|echo "not ok 1 # SKIP a"
77|0 0 1|exit 77
CASES
    run -1 "$TOOLS/run-tap" --one it "$BATS_TEST_TMPDIR" record false
    [ "${lines[-1]}" = "# end 0 1 0" ]
}

# refuses MESSAGE STATEMENT: what the build makes of it is nothing, and why.
refuses() {
    local make=$TOOLS/../cmake
    printf '%s\n' '-- clause: known(a, b?)' '{a}{b};' >clauses.sql
    printf '%s\n' '-- name: it' "${2%%|*}" "${2#*|}" >it.sql
    run bash -c 'awk -f "$1/common.awk" -f "$1/clauses.awk" clauses.sql it.sql >made.sql && awk -v out=source -f "$1/common.awk" -f "$1/embed.awk" made.sql &&
        awk -v out=templates -f "$1/common.awk" -f "$1/via_procedures.awk" made.sql' - "$make"
    echo "$2: $status: $output"
    if [ "$1" = nothing ]; then
        [ "$status" -eq 0 ]
    else
        [ "$status" -ne 0 ] && [[ $output == *"$1"* ]]
    fi
}

@test "sql/: what is not declared stops the build" {
    cd "$BATS_TEST_TMPDIR"
    refuses nothing '-- params: id u64|SELECT :id, {{known(f(1, 2))}}, {{known(1, 2)}};'
    refuses "there is no clause {{unknown}}" '-- params: id u64|SELECT :id, {{unknown}};'
    refuses "wants 'a'" '-- params: id u64|SELECT :id, {{known}};'
    refuses "has 2 parameters, not 3" '-- params: id u64|SELECT :id, {{known(1, 2, 3)}};'
    refuses "uses :other, which it does not declare" '-- params: id u64|SELECT :id, :other;'
    refuses "declares other and does not use it" '-- params: id u64, other u64|SELECT :id;'
    refuses nothing $'-- via: own\n-- params: id u64|SELECT :id;'
    refuses "nothing here says what it may be" $'-- via: own\n-- params: other u64|SELECT :other;'
}
