# The command `rowlock`, from Debian's packages and nothing else:
#
#   docker build -t rowlock .
#   docker run --rm -e ROWLOCK_URL=mysql://user@host/schema rowlock ls
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
    build-essential cmake debhelper libjson-c-dev libmariadb-dev pkg-config uuid-dev
COPY . /src/rowlock
RUN cd /src/rowlock && dpkg-buildpackage -us -uc -b

FROM debian:bookworm-slim
COPY --from=build /src/rowlock_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/rowlock_*.deb && \
    rm -rf /tmp/*.deb /var/lib/apt/lists/*
USER nobody
ENTRYPOINT ["rowlock"]
