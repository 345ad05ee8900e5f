# Do the checks find what they are for? Each is given something wrong.

setup_file() {
    export TOOLS="$BATS_TEST_DIRNAME/../../tools"
}

plant() { # PATH LINES...
    mkdir -p "$BATS_TEST_TMPDIR/$(dirname "$1")"
    printf '%s\n' "${@:2}" >"$BATS_TEST_TMPDIR/$1"
}

finds() { # WHAT
    run "$TOOLS/check-layers" "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"$1"* ]]
}

@test "layers: a clean tree passes" {
    plant src/db/a.c '#include <mysql.h>' '#include "base/text.h"' '/* printf(x) SELECT */'
    plant src/cli/b.c '#include "rowlock/rowlock.h"' 'int f(void) { printf("SELECTED\n"); exit(1); }'
    plant src/api/c.c '#include "mode/lease.h"' '#include "rowlock/rowlock_mysql.h"' 'x = "a string with system(1)";'
    run "$TOOLS/check-layers" "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "layers: an include that points up" {
    plant src/base/a.c '#include "db/conn.h"'
    finds "src/base may not include db/conn.h"
}

@test "layers: the command uses the public headers alone" {
    plant src/cli/a.c '#include "base/text.h"'
    finds "src/cli may not include base/text.h"
}

@test "layers: the waiting does not know the keeper" {
    plant src/wait/a.c '#include "keep/keeper.h"'
    finds "src/wait may not include keep/keeper.h"
}

@test "layers: the database client is named in its place only" {
    plant src/api/a.c '#include <mysql.h>'
    finds "may include mysql.h"
    plant src/api/a.c '#include <mysqld_error.h>'
    finds "may include mysqld_error.h"
    rm "$BATS_TEST_TMPDIR/src/api/a.c"
    plant src/mode/lease.c '#include "rowlock/rowlock_mysql.h"'
    finds "may include rowlock/rowlock_mysql.h"
}

@test "layers: an unknown folder" {
    plant src/misc/a.c 'int x;'
    finds "not one of the layers"
}

@test "layers: SQL in a string" {
    plant src/mode/a.c 'const char *s = "SELECT id FROM resource";'
    finds "SQL belongs into sql/"
    plant src/mode/a.c 'const char *s = "x \" FOR UPDATE";'
    finds "SQL belongs into sql/"
    plant src/mode/a.c 'run(c, "COMMIT");'
    finds "SQL belongs into sql/"
}

@test "layers: calls that nobody makes, and those the library does not make" {
    for call in 'strcpy(a, b)' 'sprintf(a, "x")' 'system ("x")' 'rand()' 'atoi(a)' 'gets(a)'; do
        plant src/cli/a.c "int f(void) { return $call; }"
        finds "nobody calls ${call%%[ (]*}()"
    done
    rm -r "$BATS_TEST_TMPDIR/src/cli"
    for call in 'printf("x")' 'exit(1)' 'abort()' 'signal(1, f)' 'sigaction(1, 0, 0)' 'puts(a)'; do
        plant src/keep/a.c "int f(void) { return $call; }"
        finds "the library never calls ${call%%(*}()"
    done
    plant src/keep/a.c 'int f(void) { return fprintf(stderr, "x"); }'
    finds "the library never prints"
}

@test "exports: something that no header declares, and something missing" {
    printf 'int rowlock_secret(void) { return 1; }\n' >"$BATS_TEST_TMPDIR/a.c"
    printf 'ROWLOCK_0 { global: rowlock_*; local: *; };\n' >"$BATS_TEST_TMPDIR/map"
    cc -shared -fPIC -Wl,-soname,librowlock.so.9 -Wl,--version-script="$BATS_TEST_TMPDIR/map" \
        -o "$BATS_TEST_TMPDIR/a.so" "$BATS_TEST_TMPDIR/a.c"
    run "$TOOLS/check-exports" "$BATS_TEST_TMPDIR/a.so"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *$'rowlock_secret\n^ exported, but not declared'* ]]
    [[ $output == *$'rowlock_version_read\n'*$'\n^ declared, but not exported'* ]]
    [[ $output == *"the SONAME is librowlock.so.9"* ]]
}

@test "counting: crashed, empty, skipped and failed programs" {
    tap() {
        run "$TOOLS/run-tap" "$BATS_TEST_TMPDIR/record" bash -c "$1"
        echo "$output"
    }
    tap 'echo "ok 1 - a"; echo "ok 2 - b # SKIP why"'
    [ "$status" -eq 0 ] && [ "${lines[-1]}" = "# end 1 0 1" ]
    tap 'echo "ok 1 - a"; kill -SEGV $$'
    [ "$status" -eq 1 ] && [ "${lines[-1]}" = "# end 1 1 0" ]
    tap 'true'
    [ "$status" -eq 1 ] && [ "${lines[-1]}" = "# end 0 1 0" ]
    tap 'echo "ok 1 - a"; echo "not ok 2 - b"'
    [ "$status" -eq 1 ] && [ "${lines[-1]}" = "# end 1 1 0" ]
    tap 'echo "not ok 1 # SKIP a"'
    [ "$status" -eq 77 ] && [ "${lines[-1]}" = "# end 0 0 1" ]
    run "$TOOLS/run-tap" --one it "$BATS_TEST_TMPDIR/record" false
    [ "$status" -eq 1 ] && [ "${lines[-1]}" = "# end 0 1 0" ]
}
