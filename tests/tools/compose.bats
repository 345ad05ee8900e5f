# docker-compose.yml: does Docker read it, and is it what it says?

setup_file() {
    export FILE="$BATS_TEST_DIRNAME/../../docker-compose.yml"
}

# Either of them reads the file without Docker's engine.
compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose "$@"
    else
        docker-compose "$@"
    fi
}

@test "docker compose reads it" {
    compose version >/dev/null 2>&1 || skip "there is no docker compose here"
    run compose -f "$FILE" config --quiet
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "both servers, on loopback only, with a health check each" {
    python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is missing"
    run python3 - "$FILE" <<'PYTHON'
import sys, yaml
services = yaml.safe_load(open(sys.argv[1]))["services"]
assert set(services) == {"mariadb", "mysql"}, services.keys()
for name, service in services.items():
    assert service["image"].startswith("${") and ":-" + name + ":" in service["image"], service["image"]
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL"), name
    assert service["ports"] and all(port.startswith("127.0.0.1:") for port in service["ports"]), name
    assert "/var/lib/mysql" in service["tmpfs"], name
    for key, value in service["environment"].items():
        assert "PASSWORD" not in key or value.startswith("${ROWLOCK_DB_PASSWORD:-"), key
PYTHON
    echo "$output"
    [ "$status" -eq 0 ]
}
