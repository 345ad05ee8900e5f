# The installed tree as an outside project finds it: by find_package and by pkg-config, in C and
# in C++, shared and static, run against the test server.

setup_file() {
    : "${ROWLOCK_BUILD:?set ROWLOCK_BUILD to the build folder}"
    : "${ROWLOCK_TEST_SOCKET:?set ROWLOCK_TEST_SOCKET to the socket of a private server}"
    unset ROWLOCK_URL MYSQL_PWD LD_LIBRARY_PATH
    export HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8 CMAKE_GENERATOR=Ninja
    export SOURCE="$BATS_TEST_DIRNAME/project"
    export HEADERS="$BATS_TEST_DIRNAME/../../include/rowlock"
    export README="$BATS_TEST_DIRNAME/../../README.md"
    # Moved after it was installed: nothing in it may know where it was.
    cmake --install "$ROWLOCK_BUILD" --prefix "$BATS_FILE_TMPDIR/first" >/dev/null
    mv "$BATS_FILE_TMPDIR/first" "$BATS_FILE_TMPDIR/second"
    export PREFIX="$BATS_FILE_TMPDIR/second"
    LIBDIR=$(dirname "$(find "$PREFIX" -name 'librowlock.so')")
    export LIBDIR
    export PKG_CONFIG_PATH="$LIBDIR/pkgconfig"
    export SCHEMA="rowlock_consumer_$$_$RANDOM"
    LD_LIBRARY_PATH=$LIBDIR "$PREFIX/bin/rowlock" -S "$ROWLOCK_TEST_SOCKET" -u root -D "$SCHEMA" init
}

teardown_file() {
    mariadb --no-defaults -S "$ROWLOCK_TEST_SOCKET" -u root -e "DROP DATABASE IF EXISTS \`$SCHEMA\`"
}

strict() {
    "$@" -Wall -Wextra -Wpedantic -Werror
}

# A program that uses the library for real: it says how far it came.
works() {
    run "$@" "$ROWLOCK_TEST_SOCKET" "$SCHEMA"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "all good" ]
}

@test "what is installed" {
    for file in bin/rowlock include/rowlock/rowlock.h include/rowlock/rowlock_mysql.h \
        include/rowlock/version.h; do
        [ -f "$PREFIX/$file" ]
    done
    [ -L "$LIBDIR/librowlock.so" ]
    [ "$(readlink "$LIBDIR/librowlock.so")" = librowlock.so.0 ]
    [ -f "$LIBDIR/librowlock.a" ]
    [ -f "$LIBDIR/pkgconfig/rowlock.pc" ]
    [ -f "$LIBDIR/cmake/rowlock/rowlockConfig.cmake" ]
    [ -f "$PREFIX/share/doc/rowlock/LICENSE" ]
    # By this name the package bash-completion finds it.
    bash -c '. "$1" && complete -p rowlock' - "$PREFIX/share/bash-completion/completions/rowlock"
    if compgen -G "$BATS_TEST_DIRNAME/../../docs/man/*.1" >/dev/null; then
        [ -f "$PREFIX/share/man/man1/rowlock.1" ]
    fi
    if compgen -G "$BATS_TEST_DIRNAME/../../docs/man/*.3" >/dev/null; then
        [ -f "$PREFIX/share/man/man3/librowlock.3" ]
    fi
    if [ -f "$BATS_TEST_DIRNAME/../../sql/grants.sql" ]; then
        [ -f "$PREFIX/share/rowlock/grants.sql" ]
    fi
    if [ -f "$ROWLOCK_BUILD/src/udf/rowlock_udf.so" ]; then
        [ -f "$LIBDIR/rowlock/plugin/rowlock_udf.so" ]
        [ -f "$PREFIX/share/rowlock/udf.sql" ]
        [ -f "$PREFIX/share/rowlock/udf-remove.sql" ]
        # By itself, too, for a package of its own.
        cmake --install "$ROWLOCK_BUILD" --component udf --prefix "$BATS_TEST_TMPDIR/udf" >/dev/null
        [ "$(find "$BATS_TEST_TMPDIR/udf" -type f | wc -l)" -eq 3 ]
    fi
    # Neither where it was built nor where it was first installed.
    run grep -rIlF -e "$ROWLOCK_BUILD" -e "$BATS_FILE_TMPDIR/first" "$PREFIX"
    echo "$output"
    [ "$status" -eq 1 ]
}

# What the links of a paper lead to, but to what is of the source tree alone.
targets() { # FILE
    grep -o '](\([^)]*\))' "$1" | sed 's/^](//; s/)$//; s/#.*//' |
        grep -vE '^$|^https?:|^(\.\./)?(src|tests|bench|tools|include|migrations|sql)(/[^.]*)?$' |
        grep -vE '^CONTRIBUTING.md$|^bench/README.md$|\.pml$|rowlock/rowlock\.h$'
}

@test "the links of the installed papers lead somewhere" {
    papers="$PREFIX/share/doc/rowlock"
    cd "$papers"
    for paper in README.md docs/*.md; do
        while IFS= read -r target; do
            [ -e "$(dirname "$paper")/$target" ] || echo "$paper: $target"
        done < <(targets "$paper")
    done >"$BATS_TEST_TMPDIR/dead"
    cat "$BATS_TEST_TMPDIR/dead"
    [ ! -s "$BATS_TEST_TMPDIR/dead" ]
    [ "$(targets README.md | wc -l)" -gt 20 ]
    [ -x docs/examples/udf/build ]
}

@test "README.md: what a shell must know of a folder of one's own" {
    grep -qxF '    cmake --install build --prefix "$HOME/rowlock"' "$README"
    ln -s "$PREFIX" "$BATS_TEST_TMPDIR/rowlock"
    sed -nE '/^### Without root/,/^## /s/^    (export [A-Z].*HOME.*|\. .*)$/\1/p' "$README" >"$BATS_TEST_TMPDIR/words"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/words")" -eq 4 ]
    awk '$0 == "```c" { on = 1; next } /^```/ { on = 0 } on' "$README" >"$BATS_TEST_TMPDIR/close.c"
    # As the README builds it.
    run env -u PKG_CONFIG_PATH HOME="$BATS_TEST_TMPDIR" bash -euc '. "$HOME/words"; cd "$HOME"
        complete -p rowlock
        cc close.c $(pkg-config --cflags --libs rowlock) -o close
        ROWLOCK_URL=$0 rowlock run close-it -- ./close' "mysql://root@localhost/$SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} == "account 3, token "* ]]
}

@test "the installed command runs" {
    run "$PREFIX/bin/rowlock" --version
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"$(pkg-config --modversion rowlock)"* ]]
}

@test "find_package: C and C++, shared and static" {
    cmake -S "$SOURCE" -B "$BATS_TEST_TMPDIR/build" -DCMAKE_PREFIX_PATH="$PREFIX" >"$BATS_TEST_TMPDIR/log" 2>&1 ||
        { cat "$BATS_TEST_TMPDIR/log"; false; }
    cmake --build "$BATS_TEST_TMPDIR/build" >"$BATS_TEST_TMPDIR/log" 2>&1 ||
        { cat "$BATS_TEST_TMPDIR/log"; false; }
    for program in c_shared c_static cpp_shared cpp_static; do
        works "$BATS_TEST_TMPDIR/build/$program"
    done
    ldd "$BATS_TEST_TMPDIR/build/c_shared" | grep -qF "$LIBDIR/librowlock.so.0"
    run bash -c 'ldd "$1" | grep librowlock' - "$BATS_TEST_TMPDIR/build/c_static"
    [ "$status" -eq 1 ]
}

@test "find_package: a newer version than this is not found" {
    mkdir "$BATS_TEST_TMPDIR/asks"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(asks C)' \
        'find_package(rowlock 9.0 REQUIRED)' >"$BATS_TEST_TMPDIR/asks/CMakeLists.txt"
    run cmake -S "$BATS_TEST_TMPDIR/asks" -B "$BATS_TEST_TMPDIR/build" -DCMAKE_PREFIX_PATH="$PREFIX"
    [ "$status" -ne 0 ]
    [[ $output == *"9.0"* ]]
}

@test "pkg-config: C, shared" {
    # shellcheck disable=SC2046 # flags are words
    strict "${CC:-cc}" -std=c11 -D_GNU_SOURCE -o "$BATS_TEST_TMPDIR/program" "$SOURCE/use.c" \
        $(pkg-config --cflags --libs rowlock libmariadb) -Wl,-rpath,"$LIBDIR"
    works "$BATS_TEST_TMPDIR/program"
}

@test "pkg-config: C++, shared" {
    # shellcheck disable=SC2046
    strict "${CXX:-c++}" -std=c++11 -o "$BATS_TEST_TMPDIR/program" "$SOURCE/use.cpp" \
        $(pkg-config --cflags --libs rowlock libmariadb) -Wl,-rpath,"$LIBDIR"
    works "$BATS_TEST_TMPDIR/program"
}

@test "pkg-config: C, static" {
    mkdir "$BATS_TEST_TMPDIR/only"
    cp "$LIBDIR/librowlock.a" "$BATS_TEST_TMPDIR/only/"
    # shellcheck disable=SC2046
    strict "${CC:-cc}" -std=c11 -D_GNU_SOURCE -o "$BATS_TEST_TMPDIR/program" "$SOURCE/use.c" \
        -L"$BATS_TEST_TMPDIR/only" $(pkg-config --cflags --static --libs rowlock)
    works "$BATS_TEST_TMPDIR/program"
    run bash -c 'ldd "$1" | grep librowlock' - "$BATS_TEST_TMPDIR/program"
    [ "$status" -eq 1 ]
}

# A piece of C as a manual shows it, put into a function unless it is a whole program.
compile_example() {
    if ! grep -q 'main *(' "$1"; then
        {
            printf '#include <rowlock/rowlock.h>\n#include <rowlock/rowlock_mysql.h>\n#include <stdio.h>\n'
            printf 'void close_the_books(uint64_t token);\nvoid example(void);\nvoid example(void)\n{\n'
            cat "$1"
            printf '}\n'
        } >"$1.whole.c"
    else
        cp "$1" "$1.whole.c"
    fi
    # shellcheck disable=SC2046
    strict "${CC:-cc}" -std=c11 -D_GNU_SOURCE -c -o "$1.o" "$1.whole.c" $(pkg-config --cflags rowlock) ||
        { cat -n "$1.whole.c"; return 1; }
}

@test "the example in rowlock.h compiles" {
    awk '/^ \* EXAMPLE/ { on = 1; next } /^ \* [A-Z]/ { on = 0 } on { sub(/^ \* ?/, ""); print }' \
        "$HEADERS/rowlock.h" >"$BATS_TEST_TMPDIR/example"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/example")" -gt 10 ]
    compile_example "$BATS_TEST_TMPDIR/example"
}

@test "the C examples in README.md compile" {
    [ -f "$README" ] || skip "there is no README.md"
    awk -v out="$BATS_TEST_TMPDIR/example" '/^```c$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > (out n) }' "$README"
    compgen -G "$BATS_TEST_TMPDIR/example*" >/dev/null || skip "it has none"
    for file in "$BATS_TEST_TMPDIR"/example*; do
        compile_example "$file"
    done
}
