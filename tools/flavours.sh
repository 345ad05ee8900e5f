# shellcheck shell=bash
# tools/flavours.sh - the kinds of servers that can be had here, for scripts that start servers. Source it after
# lib.sh; it changes nothing by itself.
#
#   flavour       what                        from
#   mariadb       MariaDB (10.11 on Debian 12)  the distribution's package, as installed
#   mariadb-11.8  MariaDB 11.8                the package of Debian 13 (trixie)
#   mysql-9.7     MySQL 9.7                   the package of Debian's sid
#
# The last two are unpacked, not installed: once, with mmdebstrap, from the mirror that this machine's apt uses
# (signatures are checked as for any package), into .private/flavours (ROWLOCK_UNPACKED: another folder). They are run
# with their own loader and libraries. If a flavour cannot be had, the script prints why and ends with status $CANNOT.

# shellcheck disable=SC2034 # for those who source it
FLAVOURS=(mariadb mariadb-11.8 mysql-9.7)
CANNOT=77

# flavour_known FLAVOUR
flavour_known() {
    local known
    for known in "${FLAVOURS[@]}"; do
        [ "$known" != "$1" ] || return 0
    done
    return 1
}

# flavour_prepare FLAVOUR USER: makes sure that it can be started as USER ("": as ourselves). It sets
#   SERVER_KIND     mariadb or mysql
#   SERVER_PROGRAM  the command that runs the server, with --no-defaults and the options for its files
#   SERVER_OPTIONS  options of all servers of tests and trials; later ones override them
flavour_prepare() {
    flavour_known "$1" || die "there is no flavour $1 (there are: ${FLAVOURS[*]})"
    # With a buffer pool of 32 MB all writers of 10.11 stood still for up to 3.4 s; with 256 MB they did not.
    SERVER_OPTIONS=(
        --innodb-flush-log-at-trx-commit=1
        --innodb-buffer-pool-size=256M
        --innodb-buffer-pool-dump-at-shutdown=OFF
        --innodb-buffer-pool-load-at-startup=OFF
        --skip-log-bin
        --skip-name-resolve
        --max-connections=500
        --character-set-server=utf8mb4
    )
    case $1 in
    mariadb)
        SERVER_KIND=mariadb
        program mariadbd >/dev/null || cannot "mariadbd is not installed (tools/setup installs it)"
        SERVER_PROGRAM=("$(program mariadbd)" --no-defaults)
        ;;
    mariadb-11.8)
        SERVER_KIND=mariadb
        unpacked "$1" "$2" trixie mariadb-server-core
        SERVER_PROGRAM+=(--lc-messages-dir="$UNPACKED/usr/share/mariadb")
        ;;
    mysql-9.7)
        SERVER_KIND=mysql
        unpacked "$1" "$2" sid mysql-server-core
        SERVER_PROGRAM+=(--lc-messages-dir="$UNPACKED/usr/share/mysql" --secure-file-priv=NULL --mysqlx=OFF)
        ;;
    esac
    case $SERVER_KIND in
    mariadb) SERVER_OPTIONS+=(--innodb-log-file-size=32M --performance-schema=OFF) ;;
    mysql) SERVER_OPTIONS+=(--innodb-redo-log-capacity=64M) ;;
    esac
}

# flavour_make_data FLAVOUR USER REAL OPTIONS...: makes a new data directory REAL/data, without OPTIONS from the
# template of an earlier start, if there is one; also REAL/tmp for temporary files, and REAL/install.log for errors.
# Call it after flavour_prepare. root@localhost has no password, and is the only user.
flavour_make_data() {
    local flavour=$1 user=$2 real=$3 version template
    shift 3
    version=$("${SERVER_PROGRAM[@]}" --version 2>/dev/null | sed 's/.* Ver //' | cksum | tr ' ' -)
    template=$ROWLOCK_ROOT/.private/template-2-$flavour-$version
    rm -rf "$real/data.new"
    if (($# == 0)) && [ -r "$template/ibdata1" ]; then
        cp -a --reflink=auto "$template" "$real/data.new"
    else
        SERVER_OPTIONS+=("$@")
        case $flavour in
        mariadb) make_data_installed "$user" "$real" ;;
        mariadb-*) make_data_mariadb "$user" "$real" ;;
        mysql-*) make_data_mysql "$user" "$real" ;;
        esac >"$real/install.log" 2>&1 || {
            tail -n 30 "$real/install.log" >&2
            die "the data directory of $1 could not be made"
        }
        if (($# == 0)); then
            keep_template "$real/data.new" "$template"
        fi
    fi
    if [ -n "$user" ]; then
        chown -R "$user:$(id -g "$user")" "$real/data.new"
    fi
    mv -T "$real/data.new" "$real/data"
}

# ------------------------------------------------------------------- data of each kind

make_data_installed() { # USER REAL
    # --force: the host may not know its own name.
    (
        cd "$2" || exit
        TMPDIR=$2/tmp as_user "$1" "$(program mariadb-install-db)" --no-defaults \
            --datadir="$2/data.new" --auth-root-authentication-method=normal --skip-test-db --force \
            "${SERVER_OPTIONS[@]}"
    ) && only_root | bootstrap "$1" "$2"
}

# The statements of mariadb-install-db, which itself would look for an installed server.
make_data_mariadb() { # USER REAL
    local share=$UNPACKED/usr/share/mariadb file
    (as_user "$1" mkdir -p "$2/data.new/mysql") &&
        {
            printf '%s\n' 'CREATE DATABASE IF NOT EXISTS mysql;' 'USE mysql;' 'SET @auth_root_socket = NULL;'
            for file in mariadb_system_tables mariadb_performance_tables mariadb_system_tables_data \
                fill_help_tables maria_add_gis_sp_bootstrap mariadb_sys_schema; do
                cat "$share/$file.sql" || exit
            done
        } | bootstrap "$1" "$2" --max-allowed-packet=8M &&
        only_root | bootstrap "$1" "$2"
}

make_data_mysql() { # USER REAL
    (
        cd "$2" || exit
        as_user "$1" "${SERVER_PROGRAM[@]}" --initialize-insecure \
            --datadir="$2/data.new" --tmpdir="$2/tmp" "${SERVER_OPTIONS[@]}"
    ) || return
    # Each server needs an identity of its own: the next start makes it.
    rm -f "$2/data.new/auto.cnf"
}

# Only root over the socket can log in, unless a test makes other users.
only_root() {
    printf '%s\n' 'USE mysql;' \
        "DELETE FROM global_priv WHERE NOT (User = 'root' AND Host = 'localhost') AND User <> 'mariadb.sys';" \
        'DELETE FROM proxies_priv;'
}

bootstrap() { # USER REAL OPTIONS...; the statements on stdin
    local user=$1 real=$2
    shift 2
    (
        cd "$real" || exit
        as_user "$user" "${SERVER_PROGRAM[@]}" --bootstrap \
            --datadir="$real/data.new" --tmpdir="$real/tmp" "${SERVER_OPTIONS[@]}" "$@"
    )
}

# keep_template WORK TEMPLATE: keeps it for the next start. If another process was quicker, that one's stays.
keep_template() {
    local kept
    {
        mkdir -p "$ROWLOCK_ROOT/.private" &&
            kept=$(mktemp -d "$ROWLOCK_ROOT/.private/new.XXXXXX") &&
            cp -a --reflink=auto "$1" "$kept/data" &&
            { mv -T "$kept/data" "$2" || rm -rf "$kept/data"; } &&
            rmdir "$kept"
    } 2>/dev/null || true
}

# -------------------------------------------------------------------------- unpacking

# cannot WORDS...: prints why a flavour cannot be had, and ends with status $CANNOT.
cannot() {
    say "cannot be had here: $*"
    exit "$CANNOT"
}

# unpacked FLAVOUR USER SUITE PACKAGE: sets UNPACKED, the folder, and SERVER_PROGRAM.
unpacked() {
    local loader
    flavours_folder "$2"
    UNPACKED=$UNPACKED_BASE/$1
    [ -d "$UNPACKED" ] || unpack "$@"
    loader=$(echo "$UNPACKED"/usr/lib/*/ld-linux-*.so.*)
    [ -x "$loader" ] || cannot "$1 (no loader in $UNPACKED)"
    SERVER_PROGRAM=("$loader"
        --library-path "$(dirname "$loader"):$UNPACKED/usr/lib/mysql/private"
        "$UNPACKED/usr/sbin/mysqld" --no-defaults
        --basedir="$UNPACKED/usr" --plugin-dir="$UNPACKED/usr/lib/mysql/plugin")
}

# flavours_folder USER: sets UNPACKED_BASE, a folder that USER can reach: in the tree, else a folder of
# our own beside the temporary ones.
flavours_folder() {
    UNPACKED_BASE=${ROWLOCK_UNPACKED:-$ROWLOCK_ROOT/.private/flavours}
    mkdir -p "$UNPACKED_BASE"
    if reachable "$1" "$UNPACKED_BASE"; then
        return 0
    fi
    UNPACKED_BASE=/var/tmp/rowlock-flavours-$(id -u)
    mkdir -m 755 "$UNPACKED_BASE" 2>/dev/null ||
        { [ -O "$UNPACKED_BASE" ] && [ -d "$UNPACKED_BASE" ] && [ ! -L "$UNPACKED_BASE" ]; } ||
        cannot "no folder that the user $1 can reach"
}

unpack() { # FLAVOUR USER SUITE PACKAGE
    local mode=auto work mirror log=$UNPACKED_BASE/$1.log
    program mmdebstrap >/dev/null || cannot "$1: mmdebstrap is not installed (tools/setup full installs it)"
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || cannot "$1: apt's sources name no mirror of Debian"
    exec {UNPACK_LOCK}>"$UNPACKED_BASE/lock"
    flock "$UNPACK_LOCK"
    if [ ! -d "$UNPACKED" ]; then
        rm -rf "$UNPACKED_BASE"/new.* # left by a run that was killed
        say "Unpacking $1 ($4 of Debian $3) ..."
        # A plain user unpacks without user namespaces, which many machines forbid: this variant runs no script of a
        # package, so nothing needs a root folder of its own.
        [ "$(id -u)" -eq 0 ] || mode=chrootless
        work=$(umask 022 && mktemp -d "$UNPACKED_BASE/new.XXXXXX")
        # A mirror's snapshot may be older than its signature allows. Descriptors 3 to 9 are closed, so that mmdebstrap
        # opens its own below 10: its shell knows no others.
        if ! (umask 022 && exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- && timeout 300 mmdebstrap --mode="$mode" --variant=extract --include="$4" \
            --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "2"' \
            --aptopt='Acquire::http::Timeout "20"' \
            "$3" "$work/root" "$mirror") >"$log" 2>&1 </dev/null; then
            rm -rf "$work"
            grep -E '^(E|W|Err)' "$log" | tail -n 3 >&2 || true
            cannot "$1: $4 of Debian $3 could not be unpacked from $mirror"
        fi
        mv -T "$work/root" "$UNPACKED"
        rmdir "$work"
    fi
    exec {UNPACK_LOCK}>&-
}

# debian_mirror: the mirror from which this machine's apt gets Debian.
debian_mirror() {
    local found codename
    # shellcheck disable=SC2016 # apt's own $(...)
    targets() {
        apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' "$@" 2>/dev/null || true
    }
    found=$(targets 'Origin: Debian' 'Label: Debian')
    if [ -z "$found" ]; then
        # Without lists (before the first apt-get update) apt does not know which mirror is Debian's.
        codename=$(. /etc/os-release 2>/dev/null && printf '%s' "${VERSION_CODENAME:-}")
        found=$(targets "Release: $codename")
    fi
    printf '%s\n' "${found%%$'\n'*}"
}
