//! The two scripts and how a script is run. Knows nothing of what goes in or comes out.

use std::sync::LazyLock;

use redis::{Cmd, Connection, ErrorKind, RedisResult, ServerErrorKind, Value};

use super::READ_SCRIPT;

pub(super) static PUBLISH: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("publish.lua"), "EVALSHA", "EVAL"));
pub(super) static READ: LazyLock<Script> =
    LazyLock::new(|| Script::new(READ_SCRIPT, "EVALSHA_RO", "EVAL_RO"));

/// A script's text, the digest by which the server knows it, and the commands that run each of the two.
pub(super) struct Script {
    text: &'static str,
    digest: String,
    by_digest: &'static str,
    by_text: &'static str,
}

impl Script {
    fn new(text: &'static str, by_digest: &'static str, by_text: &'static str) -> Self {
        Script { text, digest: redis::Script::new(text).get_hash().to_owned(), by_digest, by_text }
    }

    /// Runs the script; `arguments` adds the number of keys, the keys and the rest.
    ///
    /// A server that does not know the digest has run nothing, so only then is the text sent after it.
    pub(super) fn run(
        &self,
        connection: &mut Connection,
        arguments: impl Fn(&mut Cmd),
    ) -> RedisResult<Value> {
        let send = |connection: &mut Connection, command: &str, script: &str| {
            let mut cmd = redis::cmd(command);
            cmd.arg(script);
            arguments(&mut cmd);
            cmd.query(connection)
        };
        match send(connection, self.by_digest, &self.digest) {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                send(connection, self.by_text, self.text)
            }
            reply => reply,
        }
    }
}
