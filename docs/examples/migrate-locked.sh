#!/bin/sh
# migrate-locked.sh COMMAND...: run by `rowlock run`, so that a statement which a migrator before us
# has left running at the server is ended first. The login of the mysql client (its option files) is
# the migrators' own, and nobody else's; COMMAND should use it too. It needs no privilege for this.
set -eu
left="FROM /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */
      WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND command IN ('Query', 'Execute') AND id <> CONNECTION_ID()"
ask() { # A failure ends the script, before COMMAND.
    mysql --comments -N -e "$1"
}
ids=$(ask "SELECT id $left")
for id in $ids; do
    ask "KILL QUERY $id" 2>/dev/null || true # it has ended meanwhile
done
while count=$(ask "SELECT COUNT(*) $left") && [ "$count" -gt 0 ]; do
    sleep 1 # an ALTER that is being undone
done
[ "$count" = 0 ]
exec "$@"
