# The installed tree as an outside project finds it: by find_package and by pkg-config, in C and
# in C++, shared and static, run against the test server.

bats_require_minimum_version 1.5.0
export BATS_VERBOSE_RUN=yes

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

# It has nothing of the shared library.
is_static() {
    run -1 bash -c 'ldd "$1" | grep librowlock' - "$1"
}

# A program that uses the library for real: it says how far it came.
works() {
    run -0 "$@" "$ROWLOCK_TEST_SOCKET" "$SCHEMA"
    [ "${lines[-1]}" = "all good" ]
}

@test "what is installed" {
    for file in bin/rowlock include/rowlock/{rowlock,rowlock_mysql,version}.h share/doc/rowlock/LICENSE \
        share/man/man1/rowlock.1 share/man/man3/librowlock.3 share/rowlock/grants.sql; do
        [ -f "$PREFIX/$file" ] || { echo "no $file"; false; }
    done
    [ "$(readlink "$LIBDIR/librowlock.so")" = librowlock.so.0 ]
    for file in librowlock.a pkgconfig/rowlock.pc cmake/rowlock/rowlockConfig.cmake; do
        [ -f "$LIBDIR/$file" ] || { echo "no $file"; false; }
    done
    # By this name the package bash-completion finds it.
    bash -c '. "$1" && complete -p rowlock' - "$PREFIX/share/bash-completion/completions/rowlock"
    # And zsh and fish those.
    [ -f "$PREFIX/share/zsh/site-functions/_rowlock" ]
    [ -f "$PREFIX/share/fish/vendor_completions.d/rowlock.fish" ]
    if [ -f "$ROWLOCK_BUILD/src/udf/rowlock_udf.so" ]; then
        [ -f "$LIBDIR/rowlock/plugin/rowlock_udf.so" ]
        [ -f "$PREFIX/share/rowlock/udf.sql" ]
        [ -f "$PREFIX/share/rowlock/udf-remove.sql" ]
        # By itself, too, for a package of its own.
        cmake --install "$ROWLOCK_BUILD" --component udf --prefix "$BATS_TEST_TMPDIR/udf" >/dev/null
        [ "$(find "$BATS_TEST_TMPDIR/udf" -type f | wc -l)" -eq 3 ]
    fi
    run -0 "$PREFIX/bin/rowlock" --version
    [[ $output == *"$(pkg-config --modversion rowlock)"* ]]
    # Neither where it was built nor where it was first installed.
    run -1 grep -rIlF -e "$ROWLOCK_BUILD" -e "$BATS_FILE_TMPDIR/first" "$PREFIX"
}

# What the links of a paper lead to, but to what is of the source tree alone.
targets() { # FILE
    grep -o '](\([^)]*\))' "$1" | sed 's/^](//; s/)$//; s/#.*//' |
        grep -vE '^$|^https?:|^(\.\./)?(src|tests|bench|tools|include|migrations|sql)(/[^.]*)?$' |
        grep -vE '^CONTRIBUTING.md$|^bench/README.md$|\.pml$|rowlock/rowlock(_admin)?\.h$'
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

@test "install.md: what a shell must know of a folder of one's own" {
    local paper=${README%/*}/docs/install.md
    grep -qxF '    cmake --install build --prefix "$HOME/rowlock"' "$paper"
    ln -s "$PREFIX" "$BATS_TEST_TMPDIR/rowlock"
    sed -nE '/^## Without root/,/^## [^W]/s/^    (export [A-Z].*HOME.*|\. .*)$/\1/p' "$paper" >"$BATS_TEST_TMPDIR/words"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/words")" -eq 4 ]
    awk '$0 == "```c" { on = 1; next } /^```/ { on = 0 } on' "$README" >"$BATS_TEST_TMPDIR/close.c"
    # As the README builds it.
    run -0 env -u PKG_CONFIG_PATH HOME="$BATS_TEST_TMPDIR" bash -euc '. "$HOME/words"; cd "$HOME"
        complete -p rowlock
        cc close.c $(pkg-config --cflags --libs rowlock) -o close
        ROWLOCK_URL=$0 rowlock run close-it -- ./close' "mysql://root@localhost/$SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    [[ ${lines[-1]} == "account 3, token "* ]]
}

@test "find_package: C and C++, shared and static" {
    cmake -S "$SOURCE" -B "$BATS_TEST_TMPDIR/build" -DCMAKE_PREFIX_PATH="$PREFIX"
    cmake --build "$BATS_TEST_TMPDIR/build"
    for program in c_shared c_static cpp_shared cpp_static; do
        works "$BATS_TEST_TMPDIR/build/$program"
    done
    ldd "$BATS_TEST_TMPDIR/build/c_shared" | grep -qF "$LIBDIR/librowlock.so.0"
    is_static "$BATS_TEST_TMPDIR/build/c_static"
}

@test "find_package: a newer version than this is not found" {
    mkdir "$BATS_TEST_TMPDIR/asks"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(asks C)' \
        'find_package(rowlock 9.0 REQUIRED)' >"$BATS_TEST_TMPDIR/asks/CMakeLists.txt"
    run ! cmake -S "$BATS_TEST_TMPDIR/asks" -B "$BATS_TEST_TMPDIR/build" -DCMAKE_PREFIX_PATH="$PREFIX"
    [[ $output == *"9.0"* ]]
}

@test "pkg-config: C and C++, shared; C, static" {
    use() { # SOURCE COMPILER FLAG...
        strict "$2" "$SOURCE/$1" "${@:3}" -o "$BATS_TEST_TMPDIR/program"
        works "$BATS_TEST_TMPDIR/program"
    }
    # shellcheck disable=SC2207 # flags are words
    flags=($(pkg-config --cflags --libs rowlock libmariadb) -Wl,-rpath,"$LIBDIR")
    use use.c "${CC:-cc}" -std=c11 -D_GNU_SOURCE "${flags[@]}"
    use use.cpp "${CXX:-c++}" -std=c++11 "${flags[@]}"
    mkdir "$BATS_TEST_TMPDIR/only"
    cp "$LIBDIR/librowlock.a" "$BATS_TEST_TMPDIR/only/"
    # shellcheck disable=SC2046
    use use.c "${CC:-cc}" -std=c11 -D_GNU_SOURCE -L"$BATS_TEST_TMPDIR/only" $(pkg-config --cflags --static --libs rowlock)
    is_static "$BATS_TEST_TMPDIR/program"
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

@test "the examples in rowlock.h and README.md compile" {
    awk '/^ \* EXAMPLE/ { on = 1; next } /^ \* [A-Z]/ { on = 0 } on { sub(/^ \* ?/, ""); print }' \
        "$HEADERS/rowlock.h" >"$BATS_TEST_TMPDIR/example"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/example")" -gt 10 ]
    awk -v out="$BATS_TEST_TMPDIR/example" '/^```c$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > (out n) }' "$README"
    [ -s "$BATS_TEST_TMPDIR/example1" ]
    for file in "$BATS_TEST_TMPDIR"/example*; do
        compile_example "$file"
    done
}
