# Puts clauses into a file of sql/: awk -f clauses.awk sql/clauses.sql FILE. {{name}} or {{name(a, b)}} in FILE becomes
# the clause of that name, with a and b for its parameters. Other names are left alone: in sql/procedures they are those
# of statements. A parameter that is declared with a "?" may be left out at the end, and is empty then.
#
# Strict: a clause that is defined twice, or a missing or superfluous argument, ends the build.

# Reads "name(a, b)": returns the name, and sets args[1..nargs].
function read_reference(s,    open, i, c, depth, from, list) {
    nargs = 0
    open = index(s, "(")
    if (open == 0) return s
    if (s !~ /\)$/) fail("bad reference '" s "'")
    list = substr(s, open + 1, length(s) - open - 1) ","
    depth = 0
    from = 1
    for (i = 1; i <= length(list); i++) {
        c = substr(list, i, 1)
        if (c == "(") depth++
        else if (c == ")") depth--
        else if (c == "," && depth == 0) {
            args[++nargs] = trim(substr(list, from, i - from))
            from = i + 1
        }
    }
    return substr(s, 1, open - 1)
}

function begin_clause(s,    i) {
    if (clause != "") fail("clause '" clause "' does not end with ;")
    clause = read_reference(trim(s))
    if (clause !~ /^[a-z][a-z_]*$/) fail("bad name of a clause '" clause "'")
    if (clause in text) fail("clause '" clause "' is defined twice")
    count[clause] = nargs
    for (i = 1; i <= nargs; i++) {
        optional[clause, i] = sub(/\?$/, "", args[i])
        parameter[clause, i] = args[i]
    }
    text[clause] = ""
}

# The clause with each {parameter} replaced. Not with sub(), to which characters of an argument could be special.
function filled(name,    s, i, mark, at) {
    if (++filled_in_line > 50) fail("clause '" name "' is in itself")
    if (nargs > count[name]) fail("clause '" name "' has " count[name] " parameters, not " nargs)
    s = text[name]
    for (i = 1; i <= count[name]; i++) {
        if (i > nargs && !optional[name, i]) fail("clause '" name "' wants '" parameter[name, i] "'")
        if (i > nargs) args[i] = ""
        mark = "{" parameter[name, i] "}"
        if (index(args[i], mark)) fail("an argument of '" name "' holds " mark)
        while ((at = index(s, mark)) > 0)
            s = substr(s, 1, at - 1) args[i] substr(s, at + length(mark))
    }
    return s
}

function expand(s,    from, to, reference, name, result) {
    result = ""
    while ((from = index(s, "{{")) > 0 && (to = index(s, "}}")) > from) {
        reference = trim(substr(s, from + 2, to - from - 2))
        name = reference
        sub(/\(.*/, "", name)
        if (name in text) {
            read_reference(reference)
            s = substr(s, 1, from - 1) filled(name) substr(s, to + 2)
        } else {
            result = result substr(s, 1, to + 1)
            s = substr(s, to + 2)
        }
    }
    return result s
}

FNR == 1 { files++ }
files == 1 && /^-- clause:/ { begin_clause(substr($0, 11)); next }
files == 1 && /^[ \t]*(--|$)/ { next }
files == 1 {
    if (clause == "") fail("text outside of a clause")
    line = trim($0)
    last = sub(/;$/, "", line)
    text[clause] = text[clause] (text[clause] == "" ? "" : "\n") line
    if (last) clause = ""
    next
}
/^[ \t]*--/ { print; next }
{ filled_in_line = 0; print expand($0) }

END { if (!failed && clause != "") fail("clause '" clause "' does not end with ;") }
