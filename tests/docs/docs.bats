#!/usr/bin/env bats
# The papers against what they speak of: every public function, status, option and link, in
# both directions, and every example compiled and run.

setup_file() {
    : "${ROWLOCK:?set ROWLOCK to the path of the rowlock command}"
    : "${ROWLOCK_BUILD:?set ROWLOCK_BUILD to the build folder}"
    : "${ROWLOCK_TEST_SOCKET:?set ROWLOCK_TEST_SOCKET to the socket of a private server}"
    unset ROWLOCK_URL MYSQL_PWD
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
    export ROOT
    export HEADERS="$ROOT/include/rowlock/rowlock.h $ROOT/include/rowlock/rowlock_mysql.h $ROOT/include/rowlock/rowlock_migrate.h"
    export MAN1="$ROOT/docs/man/rowlock.1" MAN3="$ROOT/docs/man/librowlock.3" MAN7="$ROOT/docs/man/rowlock-sql.7" UDF7="$ROOT/docs/man/rowlock-udf.7"
    export SCHEMA="rowlock_docs_$$_$RANDOM"
    export HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8
    export OPTIONS="$BATS_FILE_TMPDIR/options.cnf"
    (umask 077 && printf '[client]\nsocket=%s\nuser=root\n' "$ROWLOCK_TEST_SOCKET" >"$OPTIONS")
    "$ROWLOCK" --defaults-file="$OPTIONS" -D "$SCHEMA" init -q
}

teardown_file() {
    mariadb --defaults-file="$OPTIONS" -e "DROP DATABASE IF EXISTS \`$SCHEMA\`; DROP DATABASE IF EXISTS \`${SCHEMA}_readme\`"
}

# ------------------------------------------------------------------ what is there

# Every public function, as the headers declare it, without blanks: one on a line.
declarations() {
    # shellcheck disable=SC2086 # paths
    awk '/^ROWLOCK_API/ { on = 1 } on { printf "%s ", $0 } on && /;/ { print ""; on = 0 }' $HEADERS |
        sed -E 's/ROWLOCK_API|ROWLOCK_MUST_USE|;.*//g; s/[[:space:]]+//g'
}

functions() {
    declarations | sed -E 's/\(.*//; s/.*(rowlock_version|rowlock_status_[a-z]+)$/\1/; s/^(rowlock_status|void|int64_t|uint64_t|size_t|unsigned|int|rowlock_mode|const[a-z_]+\*)(rowlock_)/\2/'
}

# NAME number exit-status, from the table of statuses.
statuses() {
    sed -nE 's/^ +X\(([A-Z_]+), ([0-9]+), ([0-9]+),.*/\1 \2 \3/p' "$ROOT/include/rowlock/rowlock.h"
}

# Members of a struct that callers fill in, without `reserved`.
members() {
    awk -v name="$1" '$0 ~ "^typedef struct " name " {" { on = 1; next } on && /^}/ { exit } on' \
        "$ROOT"/include/rowlock/*.h |
        sed -E 's@/\*.*\*/@@' | sed -nE 's/^ +[a-z][A-Za-z0-9_ ]*[ *]([a-z_]+)(\[[0-9]+\])?;.*/\1/p' |
        grep -vx reserved
}

commands() {
    "$ROWLOCK" --help | sed -nE '/^Commands/,/^$/s/^  ([a-z]+) .*/\1/p'
}

# Options in the text of a help, sorted: those with which a line begins.
options_of_help() {
    grep -E '^ +-' | sed -E 's/^ +//; s/  .*//' | grep -oE '(^|[ ,])--?[A-Za-z?][a-z-]*' |
        tr -d ' ,' | sort -u
}

# Options in a section of rowlock.1, sorted: its items.
options_of_man() {
    awk -v title="$1" '/^\.S[hs] / { on = $0 == title } on && /^\.It Fl/' "$MAN1" |
        grep -oE 'Fl [^ ]+' | sed -E 's/Fl //; s/^\\&//; s/^/-/' | sort -u
}

# ------------------------------------------------------------------- librowlock.3

@test "librowlock.3: the synopsis declares what the headers declare" {
    declarations | sort >"$BATS_TEST_TMPDIR/headers"
    awk '/^\.Sh DESCRIPTION/ { exit } /^\.Ft / { type = substr($0, 5) } /^\.Fn / { print type, substr($0, 5) }' "$MAN3" |
        sed -E 's/" "/,/g; s/ "/(/; s/"$/)/; s/[[:space:]]+//g' | sort >"$BATS_TEST_TMPDIR/page"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/headers")" -gt 40 ]
    diff "$BATS_TEST_TMPDIR/headers" "$BATS_TEST_TMPDIR/page"
}

@test "librowlock.3: every function has its entry" {
    functions | sort >"$BATS_TEST_TMPDIR/headers"
    awk '/^\.Sh DESCRIPTION/ { on = 1 } on && /^\.It Fn/' "$MAN3" | grep -oE 'rowlock_[a-z_]+' |
        sort >"$BATS_TEST_TMPDIR/page"
    diff "$BATS_TEST_TMPDIR/headers" "$BATS_TEST_TMPDIR/page"
}

@test "headers: each is in one of the man pages, with its constants" {
    # What others include, or make of it, or compile by.
    others=' ROWLOCK_H ROWLOCK_MYSQL_H ROWLOCK_MIGRATE_H ROWLOCK_UDF_H ROWLOCK_API ROWLOCK_MUST_USE ROWLOCK_STATUS_MAP ROWLOCK_STATUS_ENUM '
    for header in "$ROOT"/include/rowlock/*.h; do
        name=$(basename "$header")
        [ "$name" != version.h ] || continue # rowlock.h has it
        page=$MAN3
        [ "$name" != rowlock_udf.h ] || page=$UDF7
        [[ " $HEADERS " == *" $header "* || $page = "$UDF7" ]] || { echo "nothing looks at $name"; false; }
        grep -qE "^\.(Fd #include|In|It In) .*rowlock/$name" "$page" || { echo "$name: not in $page"; false; }
        for constant in $(grep -oE '\bROWLOCK_[A-Z0-9_]+\b' "$header" | sort -u); do
            [[ $others == *" $constant "* ]] || grep -qw "$constant" "$page" || { echo "$constant: not in $page"; false; }
        done
    done
}

@test "librowlock.3: every member of an option struct" {
    structs=$(sed -nE 's/^typedef struct (rowlock_[a-z_]+_options) .*/\1/p' "$ROOT"/include/rowlock/*.h)
    [ "$(wc -w <<<"$structs")" -ge 9 ]
    for struct in $structs; do
        grep -qF "$struct" "$MAN3" || { echo "no $struct"; false; }
        found=0
        while read -r member; do
            found=$((found + 1))
            grep -qE "^\.(It )?Va ([a-z_]+ , )*$member( |$)" "$MAN3" || { echo "no $struct.$member"; false; }
        done < <(members "$struct")
        echo "$struct: $found members"
        [ "$found" -gt 0 ]
    done
}

@test "librowlock.3: every status with its number and exit status" {
    statuses | awk '{ print "ROWLOCK_" $1, $2, $3 }' >"$BATS_TEST_TMPDIR/headers"
    sed -nE 's/^\.It Dv (ROWLOCK_[A-Z_]+) No ([0-9]+), exit status ([0-9]+)$/\1 \2 \3/p' "$MAN3" >"$BATS_TEST_TMPDIR/page"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/headers")" -ge 20 ]
    diff "$BATS_TEST_TMPDIR/headers" "$BATS_TEST_TMPDIR/page"
}

# ---------------------------------------------------------------------- rowlock.1

@test "rowlock.1: every command, and no other" {
    commands | sort >"$BATS_TEST_TMPDIR/help"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/help")" -ge 9 ]
    sed -nE 's/^\.Ss rowlock ([a-z]+)$/\1/p' "$MAN1" | sort >"$BATS_TEST_TMPDIR/page"
    diff "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
}

@test "rowlock.1: every option of every command, and no other" {
    for command in $(commands); do
        [ "$command" = help ] && continue # it says what --help says
        "$ROWLOCK" "$command" --help | options_of_help >"$BATS_TEST_TMPDIR/help"
        [ -s "$BATS_TEST_TMPDIR/help" ]
        options_of_man ".Ss rowlock $command" >"$BATS_TEST_TMPDIR/page"
        diff "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page" || { echo "differs: rowlock $command"; false; }
    done
}

# The names of the options in the tables of src/cli, {ID, "name", kind}: what the command takes.
options_of_code() {
    grep -ohE '\{[^{}]*, "[a-z-]+", CLI_[A-Z_]+' "$@" | grep -oE '"[a-z-]+"' | tr -d '"' | sort -u
}

@test "rowlock.1: every option that the command takes, the hidden ones of the mysql client's, too" {
    options_of_code "$ROOT"/src/cli/*.c >"$BATS_TEST_TMPDIR/code"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/code")" -gt 60 ]
    while read -r option; do
        grep -qE "Fl ([^ ]+ , )*-$option( |\$)" "$MAN1" || { echo "--$option: not in rowlock.1"; false; }
    done <"$BATS_TEST_TMPDIR/code"
}

@test "help: what stands in a line of usage is told below, and is in rowlock.1" {
    for command in $(commands); do
        [ "$command" != help ] || continue
        "$ROWLOCK" "$command" --help >"$BATS_TEST_TMPDIR/help"
        options_of_help <"$BATS_TEST_TMPDIR/help" >"$BATS_TEST_TMPDIR/told"
        sed -nE '/^Usage/,/^[A-Z`]/p' "$BATS_TEST_TMPDIR/help" | sed -E '/^(Usage| )/!d' | tr -s '[] |' '\n' |
            grep -oE '^--?[A-Za-z][a-z-]*' | sort -u >"$BATS_TEST_TMPDIR/usage"
        [ "$command" != fence ] || [ "$(wc -l <"$BATS_TEST_TMPDIR/usage")" -eq 3 ]
        diff <(comm -23 "$BATS_TEST_TMPDIR/usage" "$BATS_TEST_TMPDIR/told") /dev/null || { echo "rowlock $command"; false; }
        # What to do: install, list, status, ...
        awk -v title=".Ss rowlock $command" '/^\.S[hs] / { on = $0 == title } on' "$MAN1" >"$BATS_TEST_TMPDIR/page"
        verbs=$(sed -nE "s/^(Usage:| {6}) rowlock $command ([a-z]+)( .*)?\$/\\2/p" "$BATS_TEST_TMPDIR/help" | sort -u)
        [ "$command" != fence ] || [ "$(wc -w <<<"$verbs")" -eq 3 ]
        for verb in $verbs; do
            grep -qw "$verb" "$BATS_TEST_TMPDIR/page" || { echo "rowlock $command $verb: not in rowlock.1"; false; }
        done
    done
}

# complete_words WORD...: what the completion for bash offers for the last one, one on a line.
complete_words() {
    bash -c '
        . "$1/src/cli/rowlock.bash"
        COMP_WORDS=(rowlock "${@:3}") COMP_CWORD=$(($# - 2))
        _rowlock "$2" "${@: -1}"
        [ "${#COMPREPLY[@]}" -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' - "$ROOT" "$ROWLOCK" "$@"
}

@test "completion for bash: every command, every option that is no other name of the mysql client's, what to do" {
    diff <(complete_words "" | sort) <(commands | sort)
    for command in $(commands); do
        complete_words "$command" --
    done | sed 's/^--//; s/=$//' | sort -u >"$BATS_TEST_TMPDIR/completed"
    options_of_code "$ROOT"/src/cli/*.c | grep -v '^ssl-' | diff - "$BATS_TEST_TMPDIR/completed"
    [ "$(complete_words run --m)" = $'--max-hold=\n--mode=' ]
    # Those of one command are not another one's.
    [ -z "$(complete_words ls --max)" ]
    [ "$(complete_words -h db1 migrate --table)" = --table-wait= ]
    [ "$(complete_words fence "" | sort | tr '\n' ' ')" = "install list remove " ]
    [ "$(complete_words --url = migrate s)" = status ]
    [ "$(complete_words help b | tr '\n' ' ')" = "break bench " ]
    # Files, and whatever `run` starts, are bash's own to complete.
    [ -z "$(complete_words --defaults-file = x)" ]
    [ -z "$(complete_words run name -- --)" ]
    [ -z "$(complete_words show x)" ]
}

@test "rowlock.1: every connection option, and no other" {
    "$ROWLOCK" --help | options_of_help >"$BATS_TEST_TMPDIR/help"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/help")" -gt 15 ]
    options_of_man ".Ss Connection options" >"$BATS_TEST_TMPDIR/page"
    diff "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
}

@test "rowlock.1: every option is taken by the command" {
    for option in $(options_of_man ".Ss rowlock run"); do
        # Without a value or a command it is wrong usage, but never unknown.
        run "$ROWLOCK" run "$option"
        [ "$status" -eq 64 ]
        [[ $output != *unknown* ]] || { echo "$option: $output"; false; }
    done
}

@test "rowlock.1: what --json gives" {
    "$ROWLOCK" --defaults-file="$OPTIONS" -D "$SCHEMA" run json true
    mkdir "$BATS_TEST_TMPDIR/files"
    echo "SELECT 1;" >"$BATS_TEST_TMPDIR/files/0001_one.sql"
    for command in "ls -a" "history" "sweep" "doctor" "migrate status --into=$SCHEMA $BATS_TEST_TMPDIR/files"; do
        # shellcheck disable=SC2086
        "$ROWLOCK" --defaults-file="$OPTIONS" -D "$SCHEMA" $command --json |
            jq -r '(if type == "array" then .[0] else . end) | keys_unsorted | join(", ")' >"$BATS_TEST_TMPDIR/json"
        awk -v item="^\\.It Cm ${command%% *}( |$)" '/^\.Ss/ { on = $0 == ".Ss Output for programs" }
            on && /^\.(It|El)/ { mine = $0 ~ item; next } on && mine' "$MAN1" | tr '\n' ' ' |
            sed -E 's/ $//' >"$BATS_TEST_TMPDIR/page"
        diff "$BATS_TEST_TMPDIR/json" <(cat "$BATS_TEST_TMPDIR/page"; echo)
    done
}

@test "exit statuses: rowlock.1 and README.md have each of the headers' and the command's own" {
    { statuses | awk '{ print $3 }'; printf '%s\n' 126 127; } | sort -un >"$BATS_TEST_TMPDIR/headers"
    awk '/^\.Sh/ { on = $0 == ".Sh EXIT STATUS" } on && /^\.It/ { print $2 }' "$MAN1" |
        sort -un >"$BATS_TEST_TMPDIR/page"
    diff "$BATS_TEST_TMPDIR/headers" "$BATS_TEST_TMPDIR/page"
    awk '/^## / { on = $0 == "## Exit statuses" } on' "$ROOT/README.md" |
        sed -nE 's/^\| ([0-9, ]+) \|.*/\1/p' | grep -oE '[0-9]+' | sort -un >"$BATS_TEST_TMPDIR/readme"
    diff "$BATS_TEST_TMPDIR/headers" "$BATS_TEST_TMPDIR/readme"
}

@test "the variables that a command finds are in rowlock.1" {
    variables=$("$ROWLOCK" --defaults-file="$OPTIONS" -D "$SCHEMA" run variables env |
        sed -nE 's/^(ROWLOCK_(NAME|TOKEN|OWNER))=.*/\1/p')
    [ "$(wc -w <<<"$variables")" -eq 3 ]
    for variable in $variables ROWLOCK_URL MYSQL_PWD NO_COLOR; do
        grep -qx "\.It Ev $variable" "$MAN1"
    done
}

@test "man pages: mandoc has nothing to complain of" {
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    run mandoc -Tlint -W warning "$ROOT"/docs/man/*.[1-9]
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

# ----------------------------------------------------------------------- examples

# compile SOURCE PROGRAM: against the library of this build; a warning is an error.
compile() {
    local sanitize=()
    [ -z "${ROWLOCK_SANITIZE:-}" ] || sanitize=(-fsanitize="$ROWLOCK_SANITIZE")
    # shellcheck disable=SC2086 # flags are words
    "${CC:-cc}" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wunused-result -Werror \
        "${sanitize[@]}" -I"$ROOT/include" ${MARIADB_CFLAGS:-$(pkg-config --cflags libmariadb)} \
        "$1" -o "$2" -L"$ROWLOCK_BUILD" -lrowlock -Xlinker -rpath -Xlinker "$ROWLOCK_BUILD" \
        ${MARIADB_LIBS:-$(pkg-config --libs libmariadb)} -pthread
}

# ------------------------------------------------------------------- rowlock-sql.7

# Every public procedure with its parameters: name(a,b,OUTc), one on a line.
procedures() {
    cat "$ROOT"/sql/procedures/*.sql |
        awk '/^CREATE PROCEDURE rowlock_/ { on = 1 } /^BEGIN$/ && on { on = 0; print "" } on { printf "%s ", $0 }' |
        sed -E 's/CREATE PROCEDURE |\bIN |\bp_//g
                s/ (LONGTEXT|BIGINT UNSIGNED|DECIMAL\(40, 6\))( CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)?//g
                s/[[:space:]]+//g' | sort
}

@test "rowlock-sql.7: every procedure with its parameters, and no other" {
    procedures >"$BATS_TEST_TMPDIR/sql"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/sql")" -ge 12 ]
    sed -nE 's/^\.It Ic (rowlock_.*)/\1/p' "$MAN7" | sed -E 's/ Ns Pq /(/; s/\b(Fa|No)\b//g; s/$/)/; s/[[:space:]]+//g' |
        sort >"$BATS_TEST_TMPDIR/page"
    diff "$BATS_TEST_TMPDIR/sql" "$BATS_TEST_TMPDIR/page"
}

@test "rowlock-sql.7 and docs/sql.md: every SQLSTATE, and no other" {
    grep -ohE "SIGNAL SQLSTATE 'RL[A-Z]+'" "$ROOT"/sql/procedures/*.sql | grep -oE 'RL[A-Z]+' | sort -u >"$BATS_TEST_TMPDIR/sql"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/sql")" -ge 10 ]
    sed -nE 's/^\.It Li (RL[A-Z]+)$/\1/p' "$MAN7" | sort | diff "$BATS_TEST_TMPDIR/sql" -
    sed -nE 's/^\| (RL[A-Z]+) \|.*/\1/p' "$ROOT/docs/sql.md" | sort | diff "$BATS_TEST_TMPDIR/sql" -
}

@test "docs/sql.md: its statements run, in their order" {
    "$ROWLOCK" --defaults-file="$OPTIONS" -D "$SCHEMA" init --procedures -q
    fences "$ROOT/docs/sql.md" sql | sed "s/\browlock\.rowlock_/$SCHEMA.rowlock_/" >"$BATS_TEST_TMPDIR/guide.sql"
    [ "$(grep -c CALL "$BATS_TEST_TMPDIR/guide.sql")" -ge 12 ]
    mariadb --defaults-file="$OPTIONS" -N "$SCHEMA" <"$BATS_TEST_TMPDIR/guide.sql" >"$BATS_TEST_TMPDIR/guide.out"
    [ "$(cat "$BATS_TEST_TMPDIR/guide.out")" = 150 ]
    [ "$(mariadb --defaults-file="$OPTIONS" -N "$SCHEMA" -e 'SELECT GROUP_CONCAT(balance ORDER BY id) FROM account')" = 90,51 ]
}

@test "examples: every public function is called in one" {
    for function in $(functions); do
        grep -qE "\b$function\(" "$ROOT"/docs/examples/*.[ch] || { echo "$function: in no example"; false; }
    done
}

@test "examples: each type of rowlock_udf.h is in one, which compiles" {
    for type in $(sed -nE 's/^} (rowlock_udf_[a-z]+);/\1/p' "$ROOT/include/rowlock/rowlock_udf.h"); do
        grep -qw "$type" "$ROOT/docs/examples/udf/nightly.c" || { echo "$type: in no example"; false; }
    done
    "${CC:-cc}" -std=c17 -D_GNU_SOURCE -fPIC -Wall -Wextra -Wpedantic -Werror -I"$ROOT/include" \
        -c "$ROOT/docs/examples/udf/nightly.c" -o "$BATS_TEST_TMPDIR/nightly.o"
}

@test "examples: each compiles without a warning and does what it says" {
    count=0
    for source in "$ROOT"/docs/examples/*.c; do
        name=$(basename "$source" .c)
        echo "== $name"
        compile "$source" "$BATS_TEST_TMPDIR/$name"
        "$BATS_TEST_TMPDIR/$name" "$OPTIONS" "$SCHEMA"
        count=$((count + 1))
    done
    [ "$count" -ge 5 ]
}

@test "examples: one that meets trouble says so with its exit status" {
    compile "$ROOT/docs/examples/lease.c" "$BATS_TEST_TMPDIR/lease"
    run "$BATS_TEST_TMPDIR/lease" "$OPTIONS" "no_such_$SCHEMA"
    echo "$output"
    [ "$status" -eq 78 ]
    [[ $output == *"SCHEMA: "* ]]
}

# fences FILE KIND: the text in a Markdown file's blocks of that kind.
fences() {
    awk -v kind="$2" '$0 == "```" kind { on = 1; next } /^```/ { on = 0 } on' "$1"
}

@test "README.md: the C example compiles, and runs" {
    fences "$ROOT/README.md" c >"$BATS_TEST_TMPDIR/readme.c"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/readme.c")" -gt 20 ]
    compile "$BATS_TEST_TMPDIR/readme.c" "$BATS_TEST_TMPDIR/readme"
    ROWLOCK_URL="mysql://root@localhost/$SCHEMA?socket=$ROWLOCK_TEST_SOCKET" run "$BATS_TEST_TMPDIR/readme"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[2]} =~ ^"account 3, token "[0-9]+$ ]]
}

@test "README.md: the shell example runs and prints what is shown" {
    fences "$ROOT/README.md" sh >"$BATS_TEST_TMPDIR/readme.sh"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/readme.sh")" -gt 5 ]
    mkdir "$BATS_TEST_TMPDIR/bin"
    ln -s "$ROWLOCK" "$BATS_TEST_TMPDIR/bin/rowlock"
    # What the README gives a second, or three, has happened when its sleeps end: the first job is in;
    # somebody waits for it.
    printf '%s\n' '#!/bin/sh' 'case $1 in' "1) wanted='\"state\": \"held\"' ;;" "3) wanted='\"waited_ms\": ' ;;" \
        '*) exit 64 ;;' 'esac' \
        'until rowlock show --json nightly-close 2>/dev/null | grep -q "$wanted"; do /bin/sleep 0.1; done' \
        >"$BATS_TEST_TMPDIR/bin/sleep"
    chmod +x "$BATS_TEST_TMPDIR/bin/sleep"
    (
        export PATH="$BATS_TEST_TMPDIR/bin:$PATH"
        # A schema of its own: the examples purge names, and new ones begin above those.
        export ROWLOCK_URL="mysql://root@localhost/${SCHEMA}_readme?socket=$ROWLOCK_TEST_SOCKET"
        sh "$BATS_TEST_TMPDIR/readme.sh"
    ) >"$BATS_TEST_TMPDIR/output" 2>&1
    cat "$BATS_TEST_TMPDIR/output"
    # Times, holders and the schema's state differ; the rest is as it is in the README.
    plain() {
        sed -E 's/^ +//; s/(batch|root)@[^ ]+ [0-9]+/WHO/g; s/[0-9]+\.[0-9]+ s from now/D from now/;
                s/[0-9-]+ [0-9:]{8}/WHEN/; s/[0-9.]+m?s\b/D/g; s/[[:space:]]+/ /g' >"$1.all"
        # Two programs write the history: on a busy machine one's first line may come before the
        # other's last.
        { grep -v ^WHEN "$1.all"; grep ^WHEN "$1.all" | sort; } >"$1"
    }
    awk '/^prints, / { on = 1; next } /^If / { on = 0 } on && NF' "$ROOT/README.md" | sed 1d | plain "$BATS_TEST_TMPDIR/shown"
    sed 1d "$BATS_TEST_TMPDIR/output" | plain "$BATS_TEST_TMPDIR/got"
    diff "$BATS_TEST_TMPDIR/shown" "$BATS_TEST_TMPDIR/got"
}

@test "librowlock.3: its example compiles" {
    awk '/^\.Sh/ { on = $0 == ".Sh EXAMPLES" } on && /^\.Bd/ { c = 1; next } /^\.Ed/ { c = 0 } on && c' "$MAN3" |
        sed 's/\\e/\\/g' >"$BATS_TEST_TMPDIR/page.c"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/page.c")" -gt 20 ]
    compile "$BATS_TEST_TMPDIR/page.c" "$BATS_TEST_TMPDIR/page"
}

# -------------------------------------------------------------------------- links

papers() {
    (cd "$ROOT" && find . -maxdepth 1 -name '*.md'; cd "$ROOT" && find docs tests tools bench -name '*.md') | sed 's@^\./@@'
}

# FILE TARGET for each relative link of a Markdown file.
links() {
    # shellcheck disable=SC2016 # backquotes of Markdown
    awk '/^```/ { code = !code } !code && !/^    /' "$ROOT/$1" | sed -E 's/`[^`]*`//g' |
        grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//' | grep -vE '^[a-z]+:' || true
}

# The anchor that a heading gets.
anchors() {
    grep -E '^#+ ' "$1" | sed -E 's/^#+ //' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

@test "links: every relative one leads somewhere" {
    bad=0
    count=0
    for paper in $(papers); do
        for link in $(links "$paper"); do
            count=$((count + 1))
            file=${link%%#*}
            target="$ROOT/$paper"
            [ -z "$file" ] || target="$(dirname "$ROOT/$paper")/$file"
            if [ ! -e "$target" ]; then
                echo "$paper: $link"
                bad=1
            elif [[ $link == *#* ]] && ! anchors "$target" | grep -qxF "${link#*#}"; then
                echo "$paper: no heading for $link"
                bad=1
            fi
        done
    done
    [ "$count" -gt 10 ]
    [ "$bad" -eq 0 ]
}

@test "links: every paper, man page and folder of examples is reached from README.md" {
    reached=README.md
    for _ in 1 2 3 4; do
        for paper in $reached; do
            [[ $paper == *.md ]] || continue
            for link in $(links "$paper"); do
                reached+=" $(realpath -m --relative-to="$ROOT" "$(dirname "$ROOT/$paper")/${link%%#*}")"
            done
        done
        reached=$(tr ' ' '\n' <<<"$reached" | sort -u | tr '\n' ' ')
    done
    for paper in $(papers) docs/man/rowlock.1 docs/man/librowlock.3 docs/examples; do
        [[ " $reached" == *" $paper "* ]] || { echo "nothing leads to $paper"; false; }
    done
}

# ---------------------------------------------------------------------- migrations

# A tool of each name that docs/migrations.md runs: it says how it was called, and notes when it began
# and ended, so that two at once would show.
stand_in_tools() {
    mkdir -p "$BATS_TEST_TMPDIR/tools/bin"
    printf '%s\n' '#!/bin/sh' 'mkdir "$TOOLS/busy" || { echo "two at once" >>"$TOOLS/ran"; exit 3; }' \
        'echo "$(basename "$0") $* token $ROWLOCK_TOKEN" >>"$TOOLS/ran"' 'sleep 0.05' 'rmdir "$TOOLS/busy"' \
        >"$BATS_TEST_TMPDIR/tools/flyway"
    chmod +x "$BATS_TEST_TMPDIR/tools/flyway"
    for tool in liquibase migrate python alembic npx php goose dbmate gh-ost pt-online-schema-change bin/rails; do
        ln -s "$BATS_TEST_TMPDIR/tools/flyway" "$BATS_TEST_TMPDIR/tools/$tool"
    done
    ln -s "$ROWLOCK" "$BATS_TEST_TMPDIR/tools/rowlock"
    export TOOLS="$BATS_TEST_TMPDIR/tools" PATH="$BATS_TEST_TMPDIR/tools:$PATH" DATABASE=mysql://shop
    export ROWLOCK_URL="mysql://root@localhost/$SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
}

@test "migrations.md: every command runs its tool, as it is shown" {
    stand_in_tools
    cd "$TOOLS"
    mkdir -p docs
    ln -s "$ROOT/docs/examples" docs/examples
    printf '#!/bin/sh\nexec mariadb --defaults-file="%s" "$@"\n' "$OPTIONS" >mysql
    chmod +x mysql
    fences "$ROOT/docs/migrations.md" sh >commands
    [ "$(grep -c '^rowlock run ' commands)" -eq "$(wc -l <commands)" ]
    [ "$(wc -l <commands)" -ge 14 ]
    while read -r command; do
        sh -c "$command" </dev/null
    done <commands
    cat ran
    # Liquibase is called twice.
    [ "$(wc -l <ran)" -eq $(($(wc -l <commands) + 1)) ]
    grep -q '^flyway migrate token [0-9]' ran
    grep -q '^liquibase release-locks token' ran
    grep -q '^rails db:migrate token' ran
    grep -q '^gh-ost --conf=gh-ost.cnf .*--alter=ADD INDEX (customer) --execute token' ran
}

@test "migrations.md: ten instances at once, and each tool runs alone; its exit status comes through" {
    stand_in_tools
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        rowlock run -w 15m migrations -- flyway migrate &
    done
    wait
    [ "$(grep -c '^flyway migrate token' "$TOOLS/ran")" -eq 10 ]
    run grep -c 'two at once' "$TOOLS/ran"
    [ "$output" -eq 0 ]
    run rowlock run -w 15m migrations -- sh -c 'exit 42'
    [ "$status" -eq 42 ]
    rowlock run migrations -- sh -c 'touch "$TOOLS/began"; while [ ! -e "$TOOLS/end" ]; do sleep 0.05; done' 3>&- &
    holder=$!
    until [ -e "$TOOLS/began" ]; do sleep 0.05; done
    run rowlock run -n -E 111 migrations -- flyway migrate
    touch "$TOOLS/end"
    wait "$holder"
    [ "$status" -eq 111 ]
}

@test "migrations.md: what a dead migrator left running at the server is ended before the next begins" {
    stand_in_tools
    login="migrator_$$"
    printf '[client]\nsocket=%s\nuser=%s\n' "$ROWLOCK_TEST_SOCKET" "$login" >"$TOOLS/migrator.cnf"
    mariadb --defaults-file="$OPTIONS" -e "CREATE USER '$login'@'localhost'"
    printf '#!/bin/sh\nexec mariadb --defaults-file="%s" "$@"\n' "$TOOLS/migrator.cnf" >"$TOOLS/mysql"
    chmod +x "$TOOLS/mysql"
    # A statement without its client, that waits for a row: the client is killed, and InnoDB, which waits,
    # does not look whether it is there.
    rowlock run --mode=pessimistic row -- sh -c 'touch "$TOOLS/began"; while [ ! -e "$TOOLS/end" ]; do sleep 0.05; done' 3>&- &
    holder=$!
    until [ -e "$TOOLS/began" ]; do sleep 0.05; done
    mariadb --defaults-file="$OPTIONS" -e "GRANT SELECT, UPDATE ON \`$SCHEMA\`.resource_lock TO '$login'@'localhost'"
    mysql "$SCHEMA" -e "SET innodb_lock_wait_timeout = 600;
        SELECT id AS left_over FROM resource_lock WHERE resource_name = 'row' FOR UPDATE" 3>&- &
    client=$!
    left() {
        mariadb --defaults-file="$OPTIONS" -N -e "SELECT COUNT(*) FROM information_schema.processlist
            WHERE user = '$login' AND info LIKE '%AS left_over%'"
    }
    until [ "$(left)" -eq 1 ]; do sleep 0.05; done
    kill -9 "$client"
    [ "$(left)" -eq 1 ]
    run rowlock run -w 1m migrations -- "$ROOT/docs/examples/migrate-locked.sh" flyway migrate
    after=$(left)
    mariadb --defaults-file="$OPTIONS" -e "DROP USER '$login'@'localhost'"
    touch "$TOOLS/end"
    wait "$holder"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$after" -eq 0 ]
    grep -q '^flyway migrate token' "$TOOLS/ran"
}
