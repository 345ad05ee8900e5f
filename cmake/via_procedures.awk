# Makes the procedures of the statements marked `-- via: own` (sql/via.sql): templates for cmake/embed_procedures.awk
# with -v out=templates, and with -v out=stamp a C header with a number that changes when one of them does. Give it
# sql/*.sql, and all other sources of the procedures (this file, too).
#
# A user with EXECUTE can call them by hand, with any values and session variables. So each
# - takes long texts and checks their length itself (without strict mode a VARCHAR(63) is cut);
# - refuses NULLs, and values that a parameter of that name may not have;
# - takes the time from rl_now(), which SET timestamp does not change;
# - requires autocommit and sets READ COMMITTED, so that rows that it read and did not
#   change do not stay locked.

function note(line,    i) {
    for (i = 1; i <= length(line); i++) stamp = (stamp * 31 + code[substr(line, i, 1)] + 1) % 4294967291
}

# The condition on a parameter. (Owner ids of SQL, sql/procedures, have no '.' there.) A parameter that is not listed
# stops the build, since its statement runs with the rights of the procedure's definer.
function demand(p) {
    if (p == "owner") return "LENGTH(p_owner) BETWEEN 38 AND 63 AND SUBSTRING(p_owner, 37, 1) = '.'"
    if (p == "label") return "CHAR_LENGTH(p_label) <= 255"
    if (p == "ttl_us") return "p_ttl_us BETWEEN 1 AND 86400000000"
    if (p == "at_least_us") return "p_at_least_us <= 86400000000"
    if (p == "bell" || p == "prefix") return "p_" p " = '{bell}'"
    if (p == "last") return "LENGTH(p_last) <= 64"
    if (p == "secret") return "LENGTH(p_secret) = 32"
    if (p == "due") return "LENGTH(p_due) <= 300"
    if (p == "ticket") return "LENGTH(p_ticket) = 40"
    if (p == "begin") return "LENGTH(p_begin) <= 1020"
    if (p == "slots") return "p_slots BETWEEN 1 AND 1000"
    if (p == "count") return "p_count BETWEEN 1 AND 10000"
    if (p == "down_key") return "CHAR_LENGTH(p_down_key) BETWEEN 1 AND 255"
    if (p == "reason") return "CHAR_LENGTH(p_reason) <= 255"
    if (p == "grace_us") return "p_grace_us <= 86400000000"
    if (p == "member") return "LENGTH(p_member) <= 63"
    if (p == "value") return "LENGTH(p_value) <= 1024"
    if (p ~ /^(start|end|ends_after|starts_before)$/) return "p_" p " BETWEEN 0 AND 253402300799999999"
    if (p == "attempts") return "p_attempts <= 1000000"
    if (p == "exit_status") return "p_exit_status <= 255"
    if (p == "limit") return "p_limit <= 100000"
    if (p == "lane") return "p_lane <= 9"
    if (p == "at") return "p_at <= 253402300799999999"
    if (p == "delay_us" || p == "older_us") return "p_" p " <= 315360000000000"
    if (p == "item_key") return "CHAR_LENGTH(p_item_key) BETWEEN 2 AND 256"
    if (p == "group_key") return "CHAR_LENGTH(p_group_key) BETWEEN 1 AND 255"
    if (p == "payload") return "LENGTH(p_payload) <= 1048576"
    if (p == "items") return "JSON_VALID(p_items)"
    if (p == "leases" || p == "totals") return "JSON_VALID(p_" p ")"
    if (p == "connection_id" && name ~ /^(lease_take_over|shared_take)$/) return "p_connection_id IN (0, CONNECTION_ID())"
    # Values that are compared with a row's, or stored as a flag.
    if (p ~ /^(after|again|all|connection_id|dead|done|expected|fenced|generation|id|item|keep|kind|lease|name|number|open|own|seen|slot|token|turn|version|wanted)$/) return "p_" p " IS NOT NULL"
    fail("'" name "' has a parameter '" p "', and nothing here says what it may be")
}

# How the parameter is passed to the statement.
function given(p) {
    if (p == "label") return "label = v_label"
    if (p == "open") return "open = 0"
    return p " = p_" p
}

function template(    i, list, checks, arguments) {
    for (i = 0; i < nparams; i++) {
        list = list (i ? ", " : "") "p_" params[i] " " (ptypes[i] == "text" \
            ? "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" : ptypes[i] == "bytes" ? "LONGBLOB" : "BIGINT UNSIGNED")
        checks = checks "\n           AND " demand(params[i])
        arguments = arguments (i ? ", " : "") given(params[i])
    }
    if (timed) arguments = arguments (nparams ? ", " : "") "now = v_now"
    print "CREATE PROCEDURE rl_via_" name "(" list ")"
    print "BEGIN"
    if (timed) print "    DECLARE v_now DATETIME(6);"
    if (labelled) {
        print "    DECLARE v_login VARCHAR(140) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT CONCAT(' [', LEFT(USER(),"
        print "        CHAR_LENGTH(USER()) - CHAR_LENGTH(SUBSTRING_INDEX(USER(), '@', -1)) - 1), ']');"
        print "    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        print "        DEFAULT CONCAT(LEFT(p_label, 255 - CHAR_LENGTH(v_login)), v_login);"
    }
    print "    IF NOT COALESCE(@@autocommit" checks ", FALSE) THEN"
    print "        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'an argument of rl_via_" name " is not valid, or autocommit is off';"
    print "    END IF;"
    if (!ncolumns) print "    CALL rl_writable();"
    if (timed) print "    CALL rl_now(v_now);"
    if (!ncolumns) print "    SET @@last_insert_id = 0;"
    print "    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    print "    {{" name "(" arguments ")}};"
    if (!ncolumns) print "    SELECT ROW_COUNT(), LAST_INSERT_ID();"
    print "END;"
    print ""
}

# The end of a file ends its last statement.
function finish_statement() {
    if (out == "templates" && via == "own") template()
    name = via = ""
}

BEGIN {
    for (i = 1; i < 256; i++) code[sprintf("%c", i)] = i
}

FNR == 1 { finish_statement() }
/^[ \t]*--/ && !/^-- (name|via|params|columns|kind):/ { next }
/^[ \t]*(#.*)?$/ { next }
{ note($0) }
/^-- name:/ { finish_statement(); name = trim(substr($0, 9)); via = ""; nparams = ncolumns = timed = labelled = 0; next }
/^-- via:/ { via = trim(substr($0, 8)); next }
/^-- columns:/ { ncolumns = 1; next }
/^-- params:/ {
    nparams = split(substr($0, 11), list, ",")
    for (i = 0; i < nparams; i++) {
        if (split(trim(list[i + 1]), words, /[ \t]+/) != 2) fail("bad parameter '" list[i + 1] "'")
        params[i] = words[1]
        ptypes[i] = words[2]
        if (words[1] == "label") labelled = 1
    }
    next
}
index($0, "UTC_TIMESTAMP(6)") { timed = 1 }

END {
    if (failed) exit 1
    finish_statement()
    if (out == "stamp") {
        print "/* Made from sql/ by cmake/via_procedures.awk. Do not edit. */"
        printf "#define RL_VIA_STAMP %.0fU\n", stamp
    } else {
        print "CREATE PROCEDURE rl_via_via_stamp()"
        print "BEGIN"
        printf "    SELECT %.0f;\n", stamp
        print "END;"
    }
}
