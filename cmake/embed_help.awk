# Turns docs/help/NAME.txt into C: what `rowlock NAME --help` prints.

function c_string(s) {
    gsub(/\\/, "&&", s)
    gsub(/"/, "\\\"", s)
    return s
}

BEGIN { print "/* Made from docs/help by cmake/embed_help.awk. Do not edit. */\n#include \"cli.h\"" }
FNR == 1 {
    name = FILENAME
    sub(/.*\//, "", name)
    if (name !~ /^[a-z]+\.txt$/) fail("the file has no command's name")
    sub(/\.txt$/, "", name)
    printf "%s\nconst char cli_help_%s[] =\n", (NR > 1 ? "    ;\n" : ""), name
}
{ printf "    \"%s\\n\"\n", c_string($0) }
END {
    if (failed) exit 1
    print "    ;"
}
