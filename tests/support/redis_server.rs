//! Private Redis servers for tests: one a test, ended when it goes out of scope. Never a server that was there before.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

use driftless::io::redis::{PrivateRedis, PrivateRedisOptions};

/// Starts a server; `DRIFTLESS_REDIS_SERVER` names another program than the `redis-server` of the `PATH`.
pub fn start(options: PrivateRedisOptions) -> PrivateRedis {
    let executable = std::env::var_os("DRIFTLESS_REDIS_SERVER").map(Into::into);
    PrivateRedis::start(PrivateRedisOptions {
        executable: options.executable.clone().or(executable),
        ..options
    })
    .unwrap_or_else(|error| panic!("these tests need a Redis server: {error}"))
}

/// A server with further lines of `redis.conf`.
pub fn start_with(config: &[&str]) -> PrivateRedis {
    start(PrivateRedisOptions {
        config: config.iter().map(|line| (*line).to_owned()).collect(),
        ..PrivateRedisOptions::default()
    })
}
