#!/usr/bin/env bats
# The docs against the code: every public function, status, option and link, in both directions, and every example
# compiled and run.

load ../cli/helpers

setup_file() {
    : "${ROWLOCK_BUILD:?set ROWLOCK_BUILD to the build folder}"
    rowlock_setup_file
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd -P)
    export ROOT
    export HEADERS="$ROOT/include/rowlock/rowlock.h $ROOT/include/rowlock/rowlock_latch.h $ROOT/include/rowlock/rowlock_barrier.h $ROOT/include/rowlock/rowlock_leader.h $ROOT/include/rowlock/rowlock_once.h $ROOT/include/rowlock/rowlock_quorum.h $ROOT/include/rowlock/rowlock_queue.h $ROOT/include/rowlock/rowlock_admin.h $ROOT/include/rowlock/rowlock_mysql.h $ROOT/include/rowlock/rowlock_migrate.h"
    export MAN1="$ROOT/docs/man/rowlock.1" MAN3="$ROOT/docs/man/librowlock.3" MAN7="$ROOT/docs/man/rowlock-sql.7" UDF7="$ROOT/docs/man/rowlock-udf.7"
}

teardown_file() {
    sql_any "DROP DATABASE IF EXISTS \`${TEST_SCHEMA}_readme\`"
    rowlock_teardown_file
}

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# Every public function, as the headers declare it, without blanks: one on a line.
declarations() {
    # shellcheck disable=SC2086 # paths
    awk '/^ROWLOCK_API/ { on = 1 } on { printf "%s ", $0 } on && /;/ { print ""; on = 0 }' $HEADERS |
        sed -E 's/ROWLOCK_API|ROWLOCK_MUST_USE|;.*//g; s/[[:space:]]+//g'
}

functions() {
    declarations | sed -E 's/\(.*//; s/.*(rowlock_version|rowlock_status_[a-z]+)$/\1/; s/^(rowlock_status|void|bool|int64_t|uint64_t|size_t|unsigned|int|rowlock_mode|const[a-z_]+\*)(rowlock_)/\2/'
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
    "$ROWLOCK" help commands | sed -nE '/^Commands/,/^$/s/^  ([a-z]+) .*/\1/p'
}

# Options in a help text, sorted: those at the beginning of a line.
options_of_help() {
    grep -E '^ +-' | sed -E 's/^ +//; s/  .*//' | grep -oE '(^|[ ,])--?[A-Za-z?][a-z-]*' |
        tr -d ' ,' | sort -u
}

# Options in a section of rowlock.1, sorted: its items.
options_of_man() {
    awk -v title="$1" '/^\.S[hs] / { on = $0 == title } on && /^\.It Fl/' "$MAN1" |
        grep -oE 'Fl [^ ]+' | sed -E 's/Fl //; s/^\\&//; s/^/-/' | sort -u
}

# same LEAST COMMAND...: stdin (from the page) equals the command's output, sorted, and has at least so many lines.
same() {
    sort >page
    "${@:2}" | sort >wanted
    [ "$(wc -l <wanted)" -ge "$1" ]
    diff wanted page
}

@test "librowlock.3: the synopsis declares what the headers declare" {
    awk '/^\.Sh DESCRIPTION/ { exit } /^\.Ft / { type = substr($0, 5) } /^\.Fn / { print type, substr($0, 5) }' "$MAN3" |
        sed -E 's/" "/,/g; s/ "/(/; s/"$/)/; s/[[:space:]]+//g' | same 41 declarations
}

@test "librowlock.3: every function has its entry" {
    awk '/^\.Sh DESCRIPTION/ { on = 1 } on && /^\.It Fn/' "$MAN3" | grep -oE 'rowlock_[a-z_]+' | same 41 functions
}

@test "headers: each is in one of the man pages, with its constants" {
    # Names for include guards, other macros and compilers.
    others=' ROWLOCK_H ROWLOCK_LATCH_H ROWLOCK_BARRIER_H ROWLOCK_LEADER_H ROWLOCK_ONCE_H ROWLOCK_QUORUM_H ROWLOCK_QUEUE_H ROWLOCK_ADMIN_H ROWLOCK_MYSQL_H ROWLOCK_MIGRATE_H ROWLOCK_UDF_H ROWLOCK_API ROWLOCK_MUST_USE ROWLOCK_STATUS_MAP ROWLOCK_STATUS_ENUM '
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
    sed -nE 's/^\.It Dv ROWLOCK_([A-Z_]+) No ([0-9]+), exit status ([0-9]+)$/\1 \2 \3/p' "$MAN3" | same 20 statuses
}

@test "rowlock.1: every command, and no other; each has its line in the synopsis" {
    sed -nE 's/^\.Ss rowlock ([a-z]+)$/\1/p' "$MAN1" | same 9 commands
    sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/s/^\.Cm \([a-z]*\).*/\1/p' "$MAN1" | sort -u | same 9 commands
}

@test "rowlock.1: every option of every command, and no other" {
    for command in $(commands); do
        [ "$command" = help ] && continue # it says what --help says
        [ "$command" = alive ] && continue # it has none
        "$ROWLOCK" "$command" --help | options_of_help >help
        [ -s help ]
        options_of_man ".Ss rowlock $command" >page
        diff help page || { echo "differs: rowlock $command"; false; }
    done
}

# The names of the options in the tables of src/cli, {ID, "name", kind}: what the command takes.
options_of_code() {
    grep -ohE '\{[^{}]*, "[a-z-]+", CLI_[A-Z_]+' "$@" | grep -oE '"[a-z-]+"' | tr -d '"' | sort -u
}

@test "rowlock.1: every option that the command takes, the hidden ones of the mysql client's, too" {
    options_of_code "$ROOT"/src/cli/*.c >code
    [ "$(wc -l <code)" -gt 60 ]
    while read -r option; do
        grep -qE "Fl ([^ ]+ , )*-$option( |\$)" "$MAN1" || { echo "--$option: not in rowlock.1"; false; }
    done <code
}

# complete_words WORD...: prints what bash's completion offers for the last word, one on a line.
complete_words() {
    bash -c '
        . "$1/src/cli/rowlock.bash"
        COMP_WORDS=(rowlock "${@:3}") COMP_CWORD=$(($# - 2))
        _rowlock "$2" "${@: -1}" "${@: -2:1}"
        [ "${#COMPREPLY[@]}" -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' - "$ROOT" "$ROWLOCK" "$@"
}

@test "completion: every command, every option that is no other name of the mysql client's, what to do" {
    diff <(complete_words "" | sort) <(commands | sort)
    {
        complete_words --
        for command in $(commands); do
            complete_words "$command" --
        done
    } | sed 's/^--//; s/=$//' | sort -u >completed
    options_of_code "$ROOT"/src/cli/*.c | grep -vE '^((skip|disable)-)?ssl(-|$)' | diff - completed
    [ "$(complete_words run --m | tr '\n' ' ')" = "--mode= --max-hold= " ]
    # The options of one command are not offered for another one.
    [ -z "$(complete_words ls --max)" ]
    [ "$(complete_words -h db1 migrate --table)" = --table-wait= ]
    [ "$(complete_words fence "" | sort | tr '\n' ' ')" = "install list remove " ]
    [ "$(complete_words --url = mysql : //here/ migrate s)" = status ]
    [ "$(complete_words help b | tr '\n' ' ')" = "barrier break bench " ]
    [ "$(complete_words help con)" = connection ]
}

@test "completion as it is typed into bash, zsh and fish: a name, one with blanks, a word of an option, a file of one" {
    rl run nightly/close -- true
    rl run "with a blank" -- true
    mkdir bin zsh
    ln -s "$ROWLOCK" bin/rowlock
    ln -s "$ROOT/src/cli/rowlock.zsh" zsh/_rowlock
    cp "$TEST_OPTIONS" a-file
    export TERM=dumb PATH="$PWD/bin:$PATH"
    export ROWLOCK_URL="mysql://root@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
    typed=('type:rowlock show nigh\t\n' 'wait:^name +nightly/close' 'type:rowlock show with\t\n' 'wait:^name +with a blank'
        'type:rowlock run --mode=pess\t another -- true && echo EN""D\n' 'wait:^END'
        'type:rowlock --defaults-extra-file=a\t ls -a && echo EN""D\n' 'wait:^END' 'type:exit\n')
    for shell in "bash --noprofile --rcfile $ROOT/src/cli/rowlock.bash" "zsh -f" "fish --no-config -C 'source $ROOT/src/cli/rowlock.fish'"; do
        command -v "${shell%% *}" >/dev/null || { echo "# no ${shell%% *}" >&3; continue; }
        begin='echo REA""DY'
        [ "$shell" != "zsh -f" ] || begin="fpath=($PWD/zsh \$fpath); autoload -Uz compinit; compinit -D -u; $begin"
        TERMINAL_LIMIT=40 python3 "$ROOT/tests/cli/terminal.py" "type:$begin\\n" 'wait:^READY' "${typed[@]}" -- bash -c "exec $shell" >screen ||
            { cat -v screen; false; }
    done
}

# complete_here SHELL WORD...: the same on this file's server, in that shell; the last word is completed.
complete_here() {
    local shell=$1
    shift
    set -- rowlock --defaults-file="$TEST_OPTIONS" -D "$TEST_SCHEMA" "$@"
    case $shell in
    bash) complete_words "${@:2}" ;;
    fish)
        # fish completes as if the line were typed.
        PATH="$PWD/bin:$PATH" fish --no-config -c 'source $argv[1]/src/cli/rowlock.fish; complete -C "$argv[2]"' "$ROOT" "$*" |
            sed 's/\t.*//'
        ;;
    zsh)
        # The function, with stand-ins for zsh's own functions that it calls.
        PATH="$PWD/bin:$PATH" zsh -fc '
            compset() { :; }
            _files() { compadd -- *(N) }
            # Prints the words that begin with the typed one.
            compadd() { while [[ $1 != -- ]]; do shift; done; print -rl -- "${(M)@[2,-1]:#${(b)words[CURRENT]}*}" }
            root=$1
            words=("${@[2,-1]}") CURRENT=$#words
            _rowlock() { . $root/src/cli/rowlock.zsh }
            _rowlock' - "$ROOT" "$@" | sed '/^$/d'
        ;;
    esac
}

@test "completion in bash, zsh and fish: names of locks, words of options, files behind -- alone" {
    rl run "nightly/close" -- true
    rl run "nightly/open" -- true
    rl run "with a blank" -- true
    mkdir bin folder
    ln -s "$ROWLOCK" bin/rowlock
    touch a-file
    for shell in bash zsh fish; do
        command -v $shell || { echo "# no $shell" >&3; continue; }
        is() { [ "$(complete_here $shell "${@:2}" | sort | tr '\n' ' ')" = "${1:+$1 }" ] || { complete_here $shell "${@:2}"; false; }; }
        is "nightly/close nightly/open" show nightly/
        is "nightly/close nightly/open" latch down nightly/
        is "nightly/open" run --also nightly/o
        is "" show no-such
        is "" ls a-
        is "" run nightly/open -- nothing
        is "a-file" run nightly/open -- a-f
        is "down join set show wait" latch ""
        is "lease" run --mode le
    done
    # bash splits words at = and :, so only the part after them is offered; a blank is quoted.
    [ "$(complete_here bash run --mode = le)" = lease ]
    [ "$(complete_here bash run --also = nightly/o)" = nightly/open ]
    [ "$(complete_here bash show with)" = 'with\ a\ blank' ]
    [ "$(complete_here bash --defaults-extra-file = a-f)" = a-file ]
    # Without a server, completion takes a second, and prints no error.
    [ -z "$(complete_words -S "$PWD/none" show n)" ]
}

@test "rowlock --help fits a screen, names every command and no other; each help has two examples that are no wrong usage" {
    "$ROWLOCK" --help >short
    [ "$(wc -l <short)" -le 24 ]
    [ "$(wc -L <short)" -le 80 ]
    awk '/^  [a-z]/ && !/^  rowlock/ { print $1; $0 = substr($0, 39); print $1 }' short | grep . | sort | diff <(commands | sort) -
    # None of them reaches a server.
    export ROWLOCK_URL="mysql://root@localhost/?socket=$PWD/none"
    mkdir -p bin db/migrations
    ln -sf "$ROWLOCK" bin/rowlock
    for topic in $(commands) connection; do
        "$ROWLOCK" help "$topic" >text
        sed -n '/^Examples:/,$p' text | grep -E '^  rowlock ' | sed 's/^  //' >examples
        [ "$(wc -l <examples)" -ge 2 ] || { echo "$topic: $(wc -l <examples) examples"; false; }
        while IFS= read -r example; do
            [ "$topic" = connection ] || [[ "$example" == "rowlock $topic"* || "$topic" = help ]]
            status=0
            example=${example/ -p / }
            example=${example//db[1-3]/127.0.0.1}
            PATH="$PWD/bin:$PATH" timeout 1 sh -c "$example" </dev/null >said 2>&1 || status=$?
            echo "$example: $status: $(head -n 1 said)"
            # (3: `check` without a server.)
            [ "$topic$status" != check3 ] || continue
            case $status in 0 | 1 | 69 | 124) ;; *) false ;; esac
        done <examples
    done
}

@test "rowlock.1: every connection option, and no other" {
    "$ROWLOCK" help connection | options_of_help >help
    [ "$(wc -l <help)" -gt 15 ]
    options_of_man ".Ss Connection options" >page
    diff help page
}

@test "rowlock.1: what --json gives" {
    rl run json true
    mkdir files
    echo "SELECT 1;" >files/0001_one.sql
    for command in "ls -a" "history" "sweep" "doctor" "migrate status --into=$TEST_SCHEMA $PWD/files"; do
        # shellcheck disable=SC2086
        rl $command --json |
            jq -r '(if type == "array" then .[0] else . end) | keys_unsorted | join(", ")' >json
        awk -v item="^\\.It Cm ${command%% *}( |$)" '/^\.Ss/ { on = $0 == ".Ss Output for programs" }
            on && /^\.(It|El)/ { mine = $0 ~ item; next } on && mine' "$MAN1" | tr '\n' ' ' |
            sed -E 's/ $//' >page
        diff json <(cat page; echo)
    done
}

@test "exit statuses: rowlock.1 has each of the headers' and the command's own" {
    { statuses | awk '{ print $3 }'; printf '%s\n' 124 126 127; } | sort -un >headers
    awk '/^\.Sh/ { on = $0 == ".Sh EXIT STATUS" } on && /^\.It/ { print $2 }' "$MAN1" |
        sort -un >page
    diff headers page
}

@test "the variables that a command finds are in rowlock.1" {
    variables=$(rl run variables env |
        sed -nE 's/^(ROWLOCK_(NAME|TOKEN|OWNER))=.*/\1/p')
    [ "$(wc -w <<<"$variables")" -eq 3 ]
    for variable in $variables ROWLOCK_URL MYSQL_PWD NO_COLOR; do
        grep -qx "\.It Ev $variable" "$MAN1"
    done
}

@test "man pages: mandoc has nothing to complain of" {
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    run -0 mandoc -Tlint -W warning "$ROOT"/docs/man/*.[1-9]
    [ -z "$output" ]
}

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

# Every public procedure with its parameters: name(a,b,OUTc), one on a line.
procedures() {
    cat "$ROOT"/sql/procedures/*.sql |
        awk '/^CREATE PROCEDURE rowlock_/ { on = 1 } /^BEGIN$/ && on { on = 0; print "" } on { printf "%s ", $0 }' |
        sed -E 's/CREATE PROCEDURE |\bIN |\bp_//g
                s/ (LONGTEXT|LONGBLOB|(BIG)?INT UNSIGNED|DECIMAL\(40, 6\)|DATETIME\(6\)|BOOLEAN|VARCHAR\([0-9]+\))( CHARACTER SET (utf8mb4|ascii) COLLATE [a-z0-9]+_bin)?//g
                s/[[:space:]]+//g' | sort
}

@test "rowlock-sql.7: every procedure with its parameters, and no other" {
    procedures >sql
    [ "$(wc -l <sql)" -ge 12 ]
    sed -nE 's/^\.It Ic (rowlock_.*)/\1/p' "$MAN7" | sed -E 's/ Ns Pq /(/; s/\b(Fa|No)\b//g; s/$/)/; s/[[:space:]]+//g' |
        sort >page
    diff sql page
}

@test "rowlock-sql.7 and docs/sql.md: every SQLSTATE, and no other" {
    grep -ohE "SIGNAL SQLSTATE 'RL[A-Z]+'" "$ROOT"/sql/procedures/*.sql | grep -oE 'RL[A-Z]+' | sort -u >sql
    [ "$(wc -l <sql)" -ge 10 ]
    sed -nE 's/^\.It Li (RL[A-Z]+)$/\1/p' "$MAN7" | sort | diff sql -
    sed -nE 's/^\| (RL[A-Z]+) \|.*/\1/p' "$ROOT/docs/sql.md" | sort | diff sql -
}

@test "docs/sql.md: its statements run, in their order" {
    rl init --procedures -q
    fences "$ROOT/docs/sql.md" sql | sed "s/\browlock\.rowlock_/$TEST_SCHEMA.rowlock_/" >guide.sql
    [ "$(grep -c CALL guide.sql)" -ge 12 ]
    mariadb --defaults-file="$TEST_OPTIONS" -N "$TEST_SCHEMA" <guide.sql >guide.out
    [ "$(cat guide.out)" = 150 ]
    [ "$(mariadb --defaults-file="$TEST_OPTIONS" -N "$TEST_SCHEMA" -e 'SELECT GROUP_CONCAT(balance ORDER BY id) FROM account')" = 90,51 ]
}

@test "examples: every public function is called in one" {
    for function in $(functions); do
        grep -qE "\b$function\(" "$ROOT"/docs/examples/*.[ch] || { echo "$function: in no example"; false; }
    done
}

@test "examples: each type of rowlock_udf.h is in one (udf_example compiles it)" {
    for type in $(sed -nE 's/^} (rowlock_udf_[a-z]+);/\1/p' "$ROOT/include/rowlock/rowlock_udf.h"); do
        grep -qw "$type" "$ROOT/docs/examples/udf/nightly.c" || { echo "$type: in no example"; false; }
    done
}

# with_members COMMAND: with the URLs of three servers of its own.
with_members() {
    local urls=() socket i
    for i in 1 2 3; do
        socket=$("$ROWLOCK_TOOLS/server" start "$PWD/member$i" -- "--server-id=$i")
        "$ROWLOCK" --no-defaults -S "$socket" -u root init -q
        urls+=("mysql://root@localhost/rowlock?socket=$socket")
    done
    run env ROWLOCK_URLS="${urls[*]}" "$@"
    for i in 1 2 3; do
        "$ROWLOCK_TOOLS/server" remove "$PWD/member$i"
    done
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "examples: each compiles without a warning and does what it says" {
    count=0
    for source in "$ROOT"/docs/examples/*.c; do
        name=$(basename "$source" .c)
        echo "== $name"
        compile "$source" "$PWD/$name"
        # The command at the head of the source is this one.
        grep -qE "^ \*     cc $name\.c -o $name ..pkg-config --cflags --libs rowlock( libmariadb)?\)( -pthread)?$" "$source"
        if [ "$name" = quorum ]; then
            grep -qxF " *     ROWLOCK_URLS='mysql://user@db1 mysql://user@db2 mysql://user@db3' ./$name" "$source"
            with_members "$PWD/$name"
        else
            grep -qxF " *     ROWLOCK_URL='mysql://user@host/rowlock' ./$name" "$source"
            ROWLOCK_URL="mysql://root@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET" "$PWD/$name"
        fi
        count=$((count + 1))
    done
    [ "$count" -ge 5 ]
}

# fences FILE KIND: the text in a Markdown file's blocks of that kind.
fences() {
    awk -v kind="$2" '$0 == "```" kind { on = 1; next } /^```/ { on = 0 } on' "$1"
}

@test "README.md: it is short, and its figures are those of performance.json" {
    [ "$(wc -l <"$ROOT/README.md")" -le 160 ]
    python3 - "$ROOT" <<'EOF'
import json, re, sys
root = sys.argv[1]
readme = open(f"{root}/README.md", encoding="utf-8").read()
measured = [row for row in json.load(open(f"{root}/docs/performance.json"))["as the disk is"]["rows"] if row["work_us"] == 0]
for name, system in {
        "rowlock, lease": "rowlock-lease", "rowlock, row lock": "rowlock-unfenced", "Redis, `appendfsync always`": "redis-always",
        "Redis": "redis-memory", "ZooKeeper": "zookeeper", "etcd": "etcd"}.items():
    figures = [row["cycles_per_second"] for clients, names in ((1, "distinct"), (128, "distinct"), (128, "hot")) for row in measured
               if (row["system"], row["clients"], row["names"]) == (system, clients, names)]
    assert len(figures) == 3, (name, figures)
    wanted = "".join(f" | {float(figure):,.0f}" for figure in figures) + " |"
    row = re.search(rf"^\| {re.escape(name)} \| (durable|memory) \|.*", readme, re.M)
    assert row and row[0].endswith(wanted), (name, row, wanted)
EOF
}

@test "README.md: the C example compiles, and runs" {
    fences "$ROOT/README.md" c >readme.c
    [ "$(wc -l <readme.c)" -gt 20 ]
    compile readme.c readme
    ROWLOCK_URL="mysql://root@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET" run -0 ./readme
    [[ ${lines[2]} =~ ^"account 3, token "[0-9]+$ ]]
}

@test "README.md: the shell example runs and prints what is shown" {
    fences "$ROOT/README.md" sh >readme.sh
    [ "$(wc -l <readme.sh)" -ge 4 ]
    mkdir bin
    ln -s "$ROWLOCK" bin/rowlock
    # In place of the README's sleeps: wait until the first job holds the lock (1), until another one waits for it (3).
    printf '%s\n' '#!/bin/sh' 'case $1 in' "1) wanted='\"state\": \"held\"' ;;" "3) wanted='\"waited_ms\": ' ;;" \
        '*) exit 64 ;;' 'esac' \
        'until rowlock show --json nightly-close 2>/dev/null | grep -q "$wanted"; do /bin/sleep 0.1; done' \
        >bin/sleep
    chmod +x bin/sleep
    (
        export PATH="$PWD/bin:$PATH"
        # A schema of its own: purged names of other examples would raise the first tokens.
        export ROWLOCK_URL="mysql://root@localhost/${TEST_SCHEMA}_readme?socket=$ROWLOCK_TEST_SOCKET"
        rowlock init -q
        sh readme.sh
    ) >output 2>&1
    cat output
    # Times, holders and the schema's state differ from the README; the rest is the same.
    plain() {
        sed -E 's/^ +//; s/(batch|root)@[^ ]+ [0-9]+/WHO/g; s/[0-9]+\.[0-9]+ s\)/D)/;
                s/[0-9-]+ [0-9:]{8}/WHEN/; s/[0-9.]+m?s\b/D/g; s/[[:space:]]+/ /g' >"$1.all"
        # Two programs write the history: on a busy machine the order of their lines may differ.
        { grep -v ^WHEN "$1.all"; grep ^WHEN "$1.all" | sort; } >"$1"
    }
    awk '/^prints, / { on = 1; next } /^If / { on = 0 } on && NF' "$ROOT/README.md" | plain shown
    plain got <output
    diff shown got
}

@test "README.md: the crontab line, on three hosts at once and on one that is late: the job runs once, and nobody writes a mail" {
    fences "$ROOT/README.md" crontab >crontab
    [ "$(grep -c . crontab)" -eq 1 ]
    # Five fields of time, the user, the command.
    [[ "$(cat crontab)" =~ ^[0-9]+\ [0-9]+\ \*\ \*\ \*\ +[a-z]+\ +(/usr/local/bin/rowlock\ run\ .*\ --\ /usr/local/bin/close-the-books)$ ]]
    line=${BASH_REMATCH[1]}
    mkdir bin
    ln -s "$ROWLOCK" bin/rowlock
    printf '#!/bin/sh\nsleep 1; echo "ran by $ROWLOCK_OWNER" >>"%s/ran"\n' "$PWD" >bin/close-the-books
    chmod +x bin/close-the-books
    line=${line//\/usr\/local\/bin/$PWD/bin}
    cron() { # As cron runs it, with the option file of the crontab's user.
        env -i HOME="$PWD" PATH=/usr/bin:/bin SHELL=/bin/sh LOGNAME=batch \
            ROWLOCK_URL="mysql:///$TEST_SCHEMA" /bin/sh -c "$line" </dev/null
    }
    cp "$TEST_OPTIONS" .my.cnf
    for host in 1 2 3; do
        cron >"mail$host" 2>&1 3>&- &
    done
    wait
    cron >mail4 2>&1
    cat mail*
    [ "$(wc -l <ran)" -eq 1 ]
    [ "$(cat mail* | wc -c)" -eq 0 ]
}

@test "README.md: its blocks survive being pasted whole, one after the other, into one shell" {
    mkdir bin paste
    ln -s "$ROWLOCK" bin/rowlock
    ln -s "$ROOT/tools" paste/tools
    # From the private server to the migrations.
    {
        awk '/^To try it/ { on = 1 } /^## What it guarantees/ { exit } on' "$ROOT/README.md" >part
        sed -nE '/^To try it/,/^## /s/^    //p' part
        fences part sh | sed 's/; sleep 3/; sleep 1/; s/^sleep 1;/until rowlock show nightly-close >\/dev\/null 2>\&1; do sleep 0.1; done;/'
        echo 'cat >close.c <<'"'END'"
        fences part c
        echo END
        # shellcheck disable=SC2016 # backquotes of Markdown
        sed -nE 's@^/\* (cc close\.c .*) \*/$@\1@p; s/^After `(rowlock init --procedures)`.*/\1/p' part
        echo 'mariadb -S "$socket" -u root <<'"'END'"
        fences part sql
        echo END
        sed -nE '/^## Migrations/,$s/^    //p' part
        # The command at the end of the text.
        # shellcheck disable=SC2016 # backquotes of Markdown
        sed -nE 's/^All that follows works with it; `(tools\/server remove [^`]*)`.*/\1/p' part
        echo 'echo "the end: ${ROWLOCK_URL-no URL}"'
    } >pasted
    cat pasted
    [ "$(grep -c 'tools/server' pasted)" -eq 2 ]
    mkdir pc
    printf 'Name: rowlock\nDescription: x\nVersion: 0\nCflags: -I%s\nLibs: -L%s -lrowlock -Wl,-rpath,%s\n' \
        "$ROOT/include" "$ROWLOCK_BUILD" "$ROWLOCK_BUILD" >pc/rowlock.pc
    [ -z "${ROWLOCK_SANITIZE:-}" ] || sed -i 's/^cc close.c/cc -fsanitize=address,undefined close.c/' pasted
    (
        cd paste
        PKG_CONFIG_PATH="$BATS_TEST_TMPDIR/pc" PATH="$BATS_TEST_TMPDIR/bin:$PATH" bash <../pasted
    ) >said 2>&1 3>&-
    cat said
    grep -q '^closing the books, token 1$' said
    grep -q '^the first is done$' said
    grep -q '^account 3, token ' said
    grep -qE '^ *1 +0001_orders.sql +applied' said
    run ! grep -E '^rowlock: (cannot|there)|ERROR' said
    grep -q '^the end: no URL$' said
    [ ! -e paste/.private/mine ]
}

@test "librowlock.3: its example compiles" {
    awk '/^\.Sh/ { on = $0 == ".Sh EXAMPLES" } on && /^\.Bd/ { c = 1; next } on && /^\.Ed/ { exit } on && c' "$MAN3" |
        sed 's/\\e/\\/g' >page.c
    [ "$(wc -l <page.c)" -gt 20 ]
    compile page.c page
}

# compile_cpp SOURCE: as C++11, the oldest standard that is promised.
compile_cpp() {
    "${CXX:-c++}" -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$ROOT/include" -fsyntax-only "$1"
}

@test "what is said to C++ users compiles there: librowlock.3, rowlock.h" {
    awk '/^In C\+\+ structs/ { on = 1 } on && /^\.Bd/ { c = 1; next } c && /^\.Ed/ { exit } c' "$MAN3" | sed 's/\\e/\\/g' >page.cpp
    [ "$(wc -l <page.cpp)" -gt 10 ]
    compile_cpp page.cpp
    {
        printf '#include <cstdio>\n#include <rowlock/rowlock.h>\nstatic void close_the_books(uint64_t) {}\nint main() {\n'
        awk '/^ \* IN C\+\+/ { on = 1; next } on && /^ \*$/ { exit } on { print substr($0, 4) }' "$ROOT/include/rowlock/rowlock.h"
        echo '}'
    } >said.cpp
    cat said.cpp
    [ "$(grep -c '{};' said.cpp)" -eq 3 ]
    compile_cpp said.cpp
}

papers() {
    (cd "$ROOT" && find . -maxdepth 1 -name '*.md'; cd "$ROOT" && find docs tests tools bench -name '*.md') | sed 's@^\./@@'
}

# FILE TARGET for each relative link of a Markdown file.
links() {
    # shellcheck disable=SC2016 # backquotes of Markdown
    awk '/^```/ { code = !code } !code && !/^    /' "$ROOT/$1" | sed -E 's/`[^`]*`//g' |
        grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//' | grep -vE '^[a-z]+:' || true
}

# Prints the anchors of the headings.
anchors() {
    grep -E '^#+ ' "$1" | sed -E 's/^#+ //' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

@test "links: every relative one leads somewhere" {
    declare -A headings=()
    bad=0
    count=0
    for paper in $(papers); do
        for link in $(links "$paper"); do
            count=$((count + 1))
            file=${link%%#*}
            target="$ROOT/$paper"
            [ -z "$file" ] || target="${target%/*}/$file"
            if [ ! -e "$target" ]; then
                echo "$paper: $link"
                bad=1
            elif [[ $link == *#* ]]; then
                [ -n "${headings[$target]:-}" ] || headings[$target]=$'\n'$(anchors "$target")$'\n'
                [[ ${headings[$target]} == *$'\n'"${link#*#}"$'\n'* ]] || { echo "$paper: no heading for $link"; bad=1; }
            fi
        done
    done
    [ "$count" -gt 10 ]
    [ "$bad" -eq 0 ]
}

# texts CLASS FILE: prints the texts of a picture's elements of that class, one on a line.
texts() {
    sed -nE "s@^<text [^>]*class=\"$1\"[^>]*>(.*)</text>@\1@p" "$2"
}

@test "pictures: they show today's folders, statements, calls and figures" {
    cd "$ROOT"
    texts folder docs/pictures/layers.svg >"$BATS_TEST_TMPDIR/folders"
    diff <(sort "$BATS_TEST_TMPDIR/folders") <(find src -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
    # The folders from the top, as the map says; two are beside the others.
    [ "$(grep -vxE 'migrate|udf' "$BATS_TEST_TMPDIR/folders" | paste -sd' ')" = \
        "$(sed -nE 's/^Includes point down only: `([^`]*)`.*/\1/p' docs/architecture.md | sed 's/ → / /g')" ]
    names=$(sed -E '/^<title/d; s/<[^>]*>//g' docs/pictures/lease.svg | grep -oE '\b[a-z]+_[a-z_]+\b')
    [ "$(wc -w <<<"$names")" -ge 10 ]
    for name in $names; do
        functions | grep -qx "$name" || grep -qx -e "-- name: $name" sql/*.sql || { echo "$name: neither a call nor a statement"; false; }
    done
    paste -d= <(sed -nE 's@.*text-anchor="end">(.*)</text>@\1@p' docs/performance.svg) \
        <(sed -nE 's@.*class="" text-anchor="start">(.*)</text>@\1@p' docs/performance.svg) | sort >"$BATS_TEST_TMPDIR/drawn"
    awk -F ' *[|] *' '/^### / { on = $0 ~ /^### (1 client|128 clients, (each a name of its own|one hot name))$/ }
        on && NF > 12 && $4 ~ /^[0-9]/ { print $2 "=" $4 }' docs/performance.md | sort | diff - "$BATS_TEST_TMPDIR/drawn"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/drawn")" -ge 45 ]
}

# For each tool that docs/migrations.md runs, makes a stand-in that notes its arguments.
stand_in_tools() {
    mkdir -p "$PWD/tools/bin"
    printf '#!/bin/sh\necho "$(basename "$0") $* token $ROWLOCK_TOKEN" >>"$TOOLS/ran"\n' >tools/flyway
    chmod +x tools/flyway
    for tool in liquibase migrate python alembic npx php goose dbmate gh-ost pt-online-schema-change bin/rails; do
        ln -s "$PWD/tools/flyway" "tools/$tool"
    done
    ln -s "$ROWLOCK" tools/rowlock
    export TOOLS="$PWD/tools" PATH="$PWD/tools:$PATH" DATABASE=mysql://shop
    export ROWLOCK_URL="mysql://root@localhost/$TEST_SCHEMA?socket=$ROWLOCK_TEST_SOCKET"
}

@test "migrations.md: every command runs its tool, as it is shown" {
    stand_in_tools
    cd "$TOOLS"
    ln -s "$ROOT/docs" docs
    printf '#!/bin/sh\nexec mariadb --defaults-file="%s" "$@"\n' "$TEST_OPTIONS" >mysql
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
    for call in 'flyway migrate' 'liquibase release-locks' 'rails db:migrate' 'gh-ost --conf=gh-ost.cnf .*--alter=ADD INDEX (customer) --execute'; do
        grep -q "^$call token [0-9]" ran
    done
}

@test "migrations.md: what a dead migrator left running at the server is ended before the next begins" {
    stand_in_tools
    login="migrator_$$"
    printf '[client]\nsocket=%s\nuser=%s\n' "$ROWLOCK_TEST_SOCKET" "$login" >"$TOOLS/migrator.cnf"
    mariadb --defaults-file="$TEST_OPTIONS" -e "CREATE USER '$login'@'localhost'"
    printf '#!/bin/sh\nexec mariadb --defaults-file="%s" "$@"\n' "$TOOLS/migrator.cnf" >"$TOOLS/mysql"
    chmod +x "$TOOLS/mysql"
    # A statement that waits for a row, and whose client is killed: InnoDB does not notice that during the wait.
    rowlock run --mode=pessimistic row -- sh -c 'touch "$TOOLS/began"; while [ ! -e "$TOOLS/end" ]; do sleep 0.2; done' 3>&- &
    holder=$!
    until [ -e "$TOOLS/began" ]; do sleep 0.2; done
    mariadb --defaults-file="$TEST_OPTIONS" -e "GRANT SELECT, UPDATE ON \`$TEST_SCHEMA\`.resource_lock TO '$login'@'localhost'"
    mysql "$TEST_SCHEMA" -e "SET innodb_lock_wait_timeout = 600;
        SELECT id AS left_over FROM resource_lock WHERE resource_name = 'row' FOR UPDATE" 3>&- &
    client=$!
    left() {
        mariadb --defaults-file="$TEST_OPTIONS" -N -e "SELECT COUNT(*) FROM information_schema.processlist
            WHERE user = '$login' AND info LIKE '%AS left_over%'"
    }
    until [ "$(left)" -eq 1 ]; do sleep 0.05; done
    kill -9 "$client"
    [ "$(left)" -eq 1 ]
    run rowlock run -w 1m migrations -- "$ROOT/docs/examples/migrate-locked.sh" flyway migrate
    after=$(left)
    mariadb --defaults-file="$TEST_OPTIONS" -e "DROP USER '$login'@'localhost'"
    touch "$TOOLS/end"
    wait "$holder"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$after" -eq 0 ]
    grep -q '^flyway migrate token' "$TOOLS/ran"
}
