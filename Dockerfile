# syntax=docker/dockerfile:1
# driftless in a small image. With the feature kafka-tls, because a cluster elsewhere usually asks for TLS or SASL.

FROM rust:1.95-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends libssl-dev pkg-config \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
# The caches keep what was fetched and built from one image to the next; the binary is taken out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked --features kafka-tls \
 && cp target/release/driftless /usr/local/bin/driftless

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/driftless --shell /usr/sbin/nologin driftless \
 && install -d -o driftless -g driftless -m 750 /var/lib/driftless
COPY --from=build /usr/local/bin/driftless /usr/local/bin/driftless
USER driftless
WORKDIR /var/lib/driftless
VOLUME /var/lib/driftless
ENTRYPOINT ["driftless"]
CMD ["run", "--config", "/etc/driftless/driftless.toml"]
