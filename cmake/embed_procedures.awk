# Turns sql/procedures/*.sql (stored procedures) into C. Give it the files of named statements
# (sql/*.sql) first, then the templates.
#
# A template holds `CREATE PROCEDURE name(parameters)`, a line `BEGIN`, the body, a line `END;`. {{statement(a = x, now
# = v_now)}} becomes that named statement, with x for its :a, and v_now for its UTC_TIMESTAMP(6), which cannot be
# trusted in a routine. {bell} becomes the prefix of the schema's bells, when it is installed. Differences between the
# servers stand in their own comments, as in sql/.
#
# Strict: an unknown statement, a missing or superfluous parameter, a name used twice, or a text outside of a procedure
# ends the build with the file and line.

function c_string(s) {
    gsub(/\\/, "&&", s)
    gsub(/"/, "\\\"", s)
    return s
}

# ---------------------------------------------------------------- references

# Fills value[parameter] from "a = x, b = f(y, z)".
function read_arguments(list,    i, c, depth, from, n) {
    delete value
    depth = 0
    from = 1
    list = trim(list) ","
    if (list == ",") return
    for (i = 1; i <= length(list); i++) {
        c = substr(list, i, 1)
        if (c == "(") depth++
        else if (c == ")") depth--
        else if (c == "," && depth == 0) {
            read_argument(trim(substr(list, from, i - from)))
            from = i + 1
        }
    }
    if (depth != 0) fail("unbalanced parentheses in '" list "'")
}

function read_argument(pair,    at, key) {
    at = index(pair, "=")
    key = trim(substr(pair, 1, at - 1))
    if (at == 0 || key !~ /^[a-z_][a-z0-9_]*$/) fail("bad argument '" pair "'")
    if (key in value) fail("argument '" key "' is given twice")
    value[key] = trim(substr(pair, at + 1))
    if (value[key] !~ /^[A-Za-z0-9_]+$/) value[key] = "(" value[key] ")"
    unused[key] = 1
}

function value_of(key, statement) {
    if (!(key in value)) fail("'" statement "' wants an argument '" key "'")
    delete unused[key]
    return value[key]
}

# The text for {{reference}}.
function statement_text(reference,    open, name, s, result) {
    open = index(reference, "(")
    if (reference !~ /^[a-z][a-z0-9_]*\(/ || reference !~ /\)$/) fail("bad reference '" reference "'")
    name = substr(reference, 1, open - 1)
    if (!(name in statements)) fail("there is no statement '" name "' in sql/")
    delete unused
    read_arguments(substr(reference, open + 1, length(reference) - open - 1))
    s = statements[name]
    gsub(/\{schema\}\./, "", s) # a routine is in the schema of the tables
    result = ""
    while (match(s, /:[a-z_][a-z0-9_]*|UTC_TIMESTAMP\(6\)/)) {
        result = result substr(s, 1, RSTART - 1)
        if (substr(s, RSTART, 1) == ":")
            result = result value_of(substr(s, RSTART + 1, RLENGTH - 1), name)
        else
            result = result value_of("now", name)
        s = substr(s, RSTART + RLENGTH)
    }
    for (key in unused) fail("'" name "' has no parameter '" key "'")
    return result s
}

function expand(s,    from, to, result) {
    result = ""
    while ((from = index(s, "{{")) > 0) {
        to = index(s, "}}")
        if (to < from) fail("{{ without }}")
        result = result substr(s, 1, from - 1) statement_text(trim(substr(s, from + 2, to - from - 2)))
        s = substr(s, to + 2)
    }
    return result s
}

function check_marks(s) {
    gsub(/\{bell\}|\\x\{[0-9a-f]+\}/, "", s)
    if (match(s, /\{[a-z_]+\}/)) fail("unknown mark '" substr(s, RSTART, RLENGTH) "'")
    if (match(s, /[^:]:[a-z_]+/) && substr(s, RSTART, RLENGTH) !~ /^[a-z0-9_' ]:/)
        fail("a parameter of a named statement: '" substr(s, RSTART, RLENGTH) "'")
    if (index(s, "UTC_TIMESTAMP") || index(s, "NOW("))
        fail("the time comes from rl_now: UTC_TIMESTAMP stands still in a routine, and a session can move it")
}

# ---------------------------------------------------------------- the output

function put_lines(s,    lines, n, i) {
    n = split(s, lines, "\n")
    for (i = 1; i <= n; i++)
        printf "     \"%s%s\"\n", c_string(lines[i]), i < n ? "\\n" : ""
}

# A helper runs with the rights of the procedure that calls it; called by hand, with the caller's own. Another procedure
# may declare that it runs with the caller's rights, too.
function security(name) { return invoker || (name ~ /^rl_/ && name !~ /^rl_via_/) ? "INVOKER" : "DEFINER" }

function finish_procedure() {
    body = expand(body)
    check_marks(body)
    printf "    {\"%s\",\n", procedure
    put_lines("CREATE /*M! OR REPLACE */ PROCEDURE " procedure parameters \
        "\n    SQL SECURITY " security(procedure) " MODIFIES SQL DATA COMMENT '{comment}'\n" body)
    print "    },"
    procedure = ""
    count++
}

BEGIN {
    print "/* Made from sql/ by cmake/embed_procedures.awk. Do not edit. */"
    print "#include \"migrate/migrate.h\""
    print ""
    print "const rl_procedure rl_procedures[] = {"
}

FNR == 1 { template = FILENAME ~ /\/procedures\/[^\/]*$/; name = "" }

# The named statements.
!template && /^-- name:/ { name = trim(substr($0, 9)); next }
!template && /^[ \t]*(--|$)/ { next }
!template {
    line = $0
    last = sub(/;[ \t]*$/, "", line)
    statements[name] = (name in statements) ? statements[name] "\n" line : line
    if (last) name = "-"
    next
}

# The templates.
procedure == "" && /^[ \t]*(--|$)/ { next }
procedure == "" && /^CREATE PROCEDURE [a-z_0-9]+[ ]*\(/ {
    head = substr($0, length("CREATE PROCEDURE ") + 1)
    procedure = trim(substr(head, 1, index(head, "(") - 1))
    if (procedure !~ /^(rowlock|rl)_/) fail("a procedure's name begins with rowlock_ or rl_")
    if (procedure in procedures) fail("procedure '" procedure "' is there twice")
    procedures[procedure] = 1
    parameters = substr(head, index(head, "("))
    body = ""
    invoker = 0
    next
}
procedure == "" { fail("text outside of a procedure") }
body == "" && /^BEGIN$/ { body = $0; next }
body == "" && /^    SQL SECURITY INVOKER$/ { invoker = 1; next }
body == "" { parameters = parameters "\n" $0; next }
/^END;$/ { body = body "\nEND"; finish_procedure(); next }
{ body = body "\n" $0 }

END {
    if (failed) exit 1
    if (procedure != "") fail("procedure '" procedure "' does not end with a line END;")
    print "};"
    printf "const unsigned rl_procedure_count = %d;\n", count
}
