# Turns migrations/NNNN_name.sql into C: the text, and whether its head says `rowlock: breaking`. Each must also say
# `resumable`, since an interrupted migration begins anew.

function c_string(s) {
    gsub(/\\/, "\\\\", s)
    gsub(/"/, "\\\"", s)
    return s
}

function finish() {
    if (file == "") return
    if (!resumable) {
        printf "%s: a migration says \"-- rowlock: resumable\", and is\n", file > "/dev/stderr"
        exit failed = 1
    }
    printf "     ,\n     %s},\n", breaking ? "true" : "false"
}

BEGIN {
    print "/* Made from migrations/ by cmake/embed_migrations.awk. Do not edit. */"
    print "#include \"migrate/migrate.h\""
    print ""
    print "const rl_migration rl_migrations[] = {"
}

FNR == 1 {
    finish()
    file = FILENAME
    sub(/.*\//, "", file)
    if (file !~ /^[0-9][0-9][0-9][0-9]_[a-z0-9_]+\.sql$/) {
        printf "%s: a migration is named NNNN_what_it_does.sql\n", FILENAME > "/dev/stderr"
        exit 1
    }
    breaking = resumable = 0
    number = substr(file, 1, 4) + 0
    name = file
    sub(/\.sql$/, "", name)
    printf "    {%d, \"%s\",\n", number, name
    count++
}

/^-- rowlock: breaking$/  { breaking = 1 }
/^-- rowlock: resumable$/ { resumable = 1 }
{ printf "     \"%s\\n\"\n", c_string($0) }

END {
    if (failed) exit 1
    finish()
    print "};"
    printf "const unsigned rl_migration_count = %d;\n", count
}
