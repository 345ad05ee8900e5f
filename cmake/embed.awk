# Turns sql/*.sql (named statements) into C. Run with -v out=header or -v out=source.
# Strict: an unknown directive, an undeclared parameter or a missing declaration ends
# the build with the file and line.

function begin_statement(n) {
    finish_statement()
    if (n !~ /^[a-z][a-z0-9_]*$/ || length(n) > 47) fail("bad statement name '" n "'")
    if (n in seen) fail("statement '" n "' is defined twice")
    seen[n] = 1
    name = n; text = ""; kind = "prepared"; ender = ""; via = ""; nparams = 0; ncolumns = 0; done = 0
    delete params; delete columns; delete ctypes; delete csizes
}

function parse_params(list,    parts, n, i, words) {
    n = split(list, parts, ",")
    for (i = 1; i <= n; i++) {
        if (split(trim(parts[i]), words, /[ \t]+/) != 2 || words[2] !~ /^(u64|i64|text|bytes|name|word)$/)
            fail("bad parameter '" parts[i] "'")
        params[nparams++] = words[1]
    }
}

function parse_columns(list,    parts, n, i, words, size) {
    n = split(list, parts, ",")
    for (i = 1; i <= n; i++) {
        if (split(trim(parts[i]), words, /[ \t]+/) != 2) fail("bad column '" parts[i] "'")
        size = 0
        if (words[2] ~ /^(text|bytes)\([0-9]+\)$/) {
            size = words[2]
            gsub(/[^0-9]/, "", size)
            sub(/\(.*/, "", words[2])
        } else if (words[2] !~ /^(u64|i64)$/) fail("bad column type '" words[2] "'")
        columns[ncolumns] = words[1]
        ctypes[ncolumns] = words[2]
        csizes[ncolumns++] = size
    }
}

function param_index(word,    i) {
    for (i = 0; i < nparams; i++) if (params[i] == word) return i
    fail("'" name "' uses :" word ", which it does not declare")
}

function c_string(s) {
    gsub(/\\/, "&&", s)
    gsub(/"/, "\\\"", s)
    gsub(/\n/, "\\n", s)
    return s
}

function upper(s) { return toupper(s) }

# Replaces :word by ? (prepared) or leaves it (text), and lists the order of use.
function placeholders(s,    before, word, result, in_string) {
    result = ""
    nused = 0
    delete used
    while (match(s, /:[a-z_][a-z0-9_]*/)) {
        before = substr(s, 1, RSTART - 1)
        word = substr(s, RSTART + 1, RLENGTH - 1)
        s = substr(s, RSTART + RLENGTH)
        result = result before
        used[nused++] = param_index(word)
        result = result "?"
    }
    return result s
}

# The CALL of the statement's procedure (cmake/via_procedures.awk), with {schema} if it is sent as text.
function call_text(    i, list) {
    if (via == "") return "NULL"
    list = ""
    for (i = 0; i < nparams; i++) list = list (i ? ", ?" : "?")
    return "\"CALL " (index(text, "{schema}") ? "{schema}." : "") "rl_via_" name "(" list ")\""
}

function finish_statement(    sql, i, list, found, j) {
    if (name == "") return
    if (!done) fail("statement '" name "' does not end with ;")
    if (match(text, /\{\{[^}]*\}\}/)) fail("'" name "': there is no clause " substr(text, RSTART, RLENGTH))
    if (out == "header") {
        printf "    RL_SQL_%s,\n", upper(name) > "/dev/stdout"
        name = ""
        return
    }
    sql = placeholders(text)
    if (nused > most_values) most_values = nused
    if (ncolumns > most_values) most_values = ncolumns
    for (i = 0; i < nparams; i++) {
        found = 0
        for (j = 0; j < nused; j++) if (used[j] == i) found = 1
        if (!found) fail("'" name "' declares " params[i] " and does not use it")
    }
    if (ncolumns) {
        printf "static const rl_sql_column %s_columns[] = {\n", name
        for (i = 0; i < ncolumns; i++)
            printf "    {RL_TYPE_%s, %d}, /* %s */\n", upper(ctypes[i]), csizes[i], columns[i]
        print "};"
    }
    list = ""
    for (i = 0; i < nused; i++) list = list (i ? ", " : "") used[i]
    if (nused) printf "static const unsigned char %s_uses[] = {%s};\n", name, list
    table = table sprintf("    [RL_SQL_%s] = {\"%s\", \"%s\", %s, %s, %d, %d, %s, %d, %s},\n", \
        upper(name), name, c_string(sql), call_text(), kind == "text" ? "true" : "false", \
        nparams, nused, nused ? name "_uses" : "NULL", \
        ncolumns, ncolumns ? name "_columns" : "NULL")
    name = ""
}

BEGIN {
    print "/* Made from sql/ by cmake/embed.awk. Do not edit. */"
    if (out == "header") {
        print "#ifndef RL_STATEMENTS_H"
        print "#define RL_STATEMENTS_H"
        print ""
        print "typedef enum rl_sql_id {"
    } else {
        print "#include \"stmt/stmt.h\""
        print ""
    }
}

/^-- name:/    { begin_statement(trim(substr($0, 9))); next }
/^-- kind:/    { kind = trim(substr($0, 9)); if (kind != "text") fail("bad kind"); next }
/^-- via:/     { via = trim(substr($0, 8)); if (via !~ /^(own|by hand)$/) fail("bad via"); next }
/^-- params:/  { parse_params(substr($0, 11)); next }
/^-- columns:/ { parse_columns(substr($0, 12)); next }
# A statement that contains statements: it ends with that line, and keeps its line breaks.
/^-- ends:/    { ender = trim(substr($0, 9)); next }
/^[ \t]*--/    { next }
/^[ \t]*$/     { next }
{
    if (name == "" || done) fail("text outside of a named statement")
    if (ender != "") {
        if (trim($0) == ender) done = 1
        else text = text (text == "" ? "" : "\n") $0
        next
    }
    line = trim($0)
    if (line ~ /;$/) { done = 1; sub(/;$/, "", line) }
    text = text (text == "" ? "" : " ") line
}

END {
    if (failed) exit 1
    finish_statement()
    if (out == "header") {
        print "    RL_SQL_COUNT"
        print "} rl_sql_id;"
        print ""
        print "#endif"
    } else {
        print ""
        printf "_Static_assert(%d <= RL_SQL_MAX_VALUES, \"a statement has too many columns, or placeholders\");\n", most_values
        print "const rl_sql rl_sql_table[RL_SQL_COUNT] = {"
        printf "%s", table
        print "};"
    }
}
