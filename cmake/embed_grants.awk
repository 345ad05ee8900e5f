# Turns the blocks of sql/grants.sql into C. Run with -v out=rights (for the doctor) or -v out=texts (for `rowlock
# grants`). Strict: a line that it cannot read ends the build.

function c_string(s) {
    gsub(/\\/, "&&", s)
    gsub(/"/, "\\\"", s)
    return s
}

function add_right(role, table, right, column) {
    rights[role] = rights[role] sprintf("    {\"%s\", \"%s\", \"%s\", \"%s\"},\n", role, table, right, column)
}

# "INSERT (id, fenced)", "SELECT"
function add_item(item, table,    list, columns, n, i) {
    list = ""
    if (match(item, / *\(.*\)$/)) {
        list = substr(item, RSTART, RLENGTH)
        item = substr(item, 1, RSTART - 1)
        gsub(/[ ()]/, "", list)
    }
    if (item !~ /^[A-Z]+( [A-Z]+)*$/) fail("no right: '" item "'")
    if (list != "" && list !~ /^[a-z_]+(,[a-z_]+)*$/) fail("no columns: '" list "'")
    if (list == "") {
        add_right(role, table, item, "")
        return
    }
    n = split(list, columns, ",")
    for (i = 1; i <= n; i++) add_right(role, table, item, columns[i])
}

function trim_lines(role) {
    while (nlines[role] > 0 && lines[role, nlines[role] - 1] == "") nlines[role]--
}

# Marks the places that `rowlock grants` fills in: see src/cli/grants.h.
function marked(s) {
    if (s ~ /[$#%!]/) fail("a character that is a mark: " s)
    gsub(/'[a-z_]+'@'localhost'/, "$", s)
    gsub(/`rowlock`/, "#", s)
    if (sub(/`shop`\.\*/, "%", s)) sub(/^-- /, "!", s)
    return s
}

function take_statement(s,    at, list, table, item, depth, c, i) {
    gsub(/[ \t]+/, " ", s)
    sub(/^ /, "", s)
    if (s !~ /^GRANT .* ON `rowlock`\.(\*|`[a-z_]+`) TO '[a-z_]+'@'localhost'$/) fail("no GRANT for a role: " s)
    at = index(s, " ON ")
    list = substr(s, 7, at - 7)
    table = substr(s, at + 4)
    sub(/^`rowlock`\./, "", table)
    sub(/ TO .*/, "", table)
    gsub(/`/, "", table)
    item = ""
    depth = 0
    for (i = 1; i <= length(list); i++) {
        c = substr(list, i, 1)
        depth += (c == "(") - (c == ")")
        if (c == "," && depth == 0) {
            add_item(item, table)
            item = ""
        } else if (item != "" || c != " ") item = item c
    }
    add_item(item, table)
    given[role]++
}

/^-- role:/ {
    role = $3
    if (NF != 3 || role !~ /^[a-z]+$/) fail("bad role")
    if (role in with) fail("the role '" role "' has two blocks")
    with[role] = ""
    roles[nroles++] = role
    next
}
/^-- with:/ {
    if (role == "" || NF != 3 || !($3 in with) || $3 == role) fail("bad with")
    with[role] = $3
    rights[role] = rights[$3]
    gsub("\\{\"" $3 "\"", "{\"" role "\"", rights[role])
    given[role] = given[$3]
    for (i = 0; i < nlines[$3]; i++) lines[role, nlines[role]++] = lines[$3, i]
    trim_lines(role)
    next
}
role == "" { next }
/^[ \t]*--/ || /^[ \t]*$/ {
    lines[role, nlines[role]++] = $0
    next
}
{
    sub(/^[ \t]+/, "")
    statement = statement (statement == "" ? "" : " ") $0
    if (statement ~ /;$/) {
        lines[role, nlines[role]++] = statement # each on a line of its own
        sub(/;$/, "", statement)
        take_statement(statement)
        statement = ""
    }
}

END {
    if (failed) exit 1
    if (statement != "") fail("a statement has no end")
    print "/* Made from sql/grants.sql by cmake/embed_grants.awk. Do not edit. */"
    if (out == "rights") {
        print "#include \"admin/admin.h\"\n\nconst rl_right rl_rights[] = {"
        for (i = 0; i < nroles; i++) {
            if (!given[roles[i]]) fail("the role '" roles[i] "' has no statement")
            printf "%s", rights[roles[i]]
        }
        print "};\n\nconst unsigned rl_right_count = sizeof rl_rights / sizeof rl_rights[0];"
        printf "\nconst char rl_roles[] = \""
        for (i = 0; i < nroles; i++) printf "%s%s", i ? ", " : "", roles[i]
        print "\";"
    } else {
        print "#include \"grants.h\"\n\nconst cli_role cli_roles[] = {"
        for (i = 0; i < nroles; i++) {
            role = roles[i]
            trim_lines(role)
            printf "    {\"%s\",\n", role
            for (j = 0; j < nlines[role]; j++) printf "     \"%s\\n\"\n", c_string(marked(lines[role, j]))
            print "    },"
        }
        print "};\n\nconst unsigned cli_role_count = sizeof cli_roles / sizeof cli_roles[0];"
    }
}
