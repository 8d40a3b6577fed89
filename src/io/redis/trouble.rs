//! What Redis or the way to it said no with, in words an operator can act on. Decides transient or permanent;
//! never tries again, and shows no credentials.

use std::io;

use redis::{ErrorKind, RedisError};

use crate::ports::{PortError, Trouble};

/// Describes a failed call: `doing` is the step ("publish"), `key` the meta key of the view or empty.
pub(super) fn from_redis(address: &str, doing: &str, key: &str, error: &RedisError) -> PortError {
    let (kind, cause, hint) = judge(error);
    let of_key = if key.is_empty() { String::new() } else { format!(" of {key}") };
    PortError {
        kind,
        what: format!("Redis at {address}: {doing}{of_key} failed: {cause}"),
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    }
}

/// A reply that no version of the server gives; something else answers there, or the script was changed.
pub(super) fn unexpected_reply(address: &str, doing: &str, key: &str) -> PortError {
    PortError::transient(format!(
        "Redis at {address}: {doing} of {key} failed: the reply has an unexpected form"
    ))
    .with_hint("check that the address is that of a Redis 7.0 or later server and not of a proxy that rewrites replies")
}

type Judgement = (Trouble, String, &'static str);

fn judge(error: &RedisError) -> Judgement {
    if let Some((code, detail)) = server_error(error) {
        let (kind, hint) = judge_code(&code, &detail);
        return (kind, format!("{code} {detail}").trim_end().to_owned(), hint);
    }
    match error.kind() {
        ErrorKind::Io => judge_io(error),
        ErrorKind::AuthenticationFailed => (
            Trouble::Permanent,
            "user or password was refused".to_owned(),
            "check the Redis user and password settings against the server's `requirepass` or `ACL LIST`; \
             a server without a password refuses one too",
        ),
        ErrorKind::InvalidClientConfig => (
            Trouble::Permanent,
            error.to_string(),
            "check the Redis URL and TLS settings; certificate checks cannot be switched off",
        ),
        ErrorKind::Parse => (
            Trouble::Transient,
            "the answer is not in Redis' protocol".to_owned(),
            "check that host and port are those of a Redis server",
        ),
        _ => (Trouble::Transient, error.to_string(), ""),
    }
}

/// Code and text of what the server answered; the first failed command's where there were several.
fn server_error(error: &RedisError) -> Option<(String, String)> {
    if let Some(errors) = error.clone().into_server_errors() {
        let (_, first) = errors.first()?;
        let detail = first.details().unwrap_or_default();
        return Some((first.code().to_owned(), detail.to_owned()));
    }
    // What the client made of an answer while it was connecting.
    let detail = error.detail().unwrap_or_default();
    error.code().map(|code| (code.to_owned(), detail.to_owned()))
}

fn judge_code(code: &str, detail: &str) -> (Trouble, &'static str) {
    use Trouble::{Permanent, Transient};
    match code {
        "LOADING" => (Transient, "the server is loading its data; nothing to do but wait"),
        "BUSY" => {
            (Transient, "another client's script holds the server; see `SLOWLOG GET` and `SCRIPT KILL`")
        }
        "OOM" => (
            Transient,
            "the server is out of memory and nothing was written: raise `maxmemory` or make room; \
             a published group costs about 400 bytes",
        ),
        "MISCONF" => {
            (Transient, "the server cannot save its data and so refuses writes: look at its disk and its log")
        }
        "NOREPLICAS" => {
            (Transient, "too few replicas are connected for `min-replicas-to-write`: bring them back")
        }
        "READONLY" => (
            Transient,
            "this server is a replica: if a failover is under way it passes, else set the URL to the master's address",
        ),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "UNBLOCKED" => (
            Transient,
            "the server is in a failover or in a move of slots; if it lasts, look at `INFO replication` or `CLUSTER INFO`",
        ),
        "MOVED" | "ASK" => (
            Permanent,
            "the server is a Redis Cluster node that does not hold this view: set the URL to the node named here",
        ),
        "NOAUTH" => (Permanent, "the server asks for a password: set the Redis password (and user) setting"),
        "WRONGPASS" => {
            (Permanent, "user or password is wrong: compare the settings with `ACL LIST` on the server")
        }
        "NOPERM" => (
            Permanent,
            "the Redis user lacks a right: it needs its keys read and write, and the commands eval evalsha eval_ro \
             evalsha_ro multi exec type hgetall hmget hset hincrby unlink exists zcard zadd zrem zmscore zrangebylex \
             xadd scan info",
        ),
        "WRONGTYPE" => (
            Permanent,
            "somebody else wrote this key: find out who, then delete it, and the view is published again",
        ),
        "ERR" if detail.contains("user executing the script can't") => judge_code("NOPERM", ""),
        "ERR" if detail.contains("unknown command") => {
            (Permanent, "driftless needs Redis 7.0 or later with scripting, under the commands' own names")
        }
        "ERR" if detail.contains("DB index") || detail.contains("SELECT") => {
            (Permanent, "the database number in the Redis URL does not exist on this server")
        }
        "ERR" if detail.contains("max number of clients") => {
            (Transient, "the server takes no more clients: raise `maxclients` or close some")
        }
        _ => (Transient, ""),
    }
}

fn judge_io(error: &RedisError) -> Judgement {
    let kind = std::error::Error::source(error).and_then(|source| find_io(source)).map(io::Error::kind);
    let text = error.to_string();
    let (trouble, cause, hint) = match kind {
        _ if error.is_timeout() => (
            Trouble::Transient,
            "no answer within the time limit".to_owned(),
            "see whether the server is overloaded or the network slow (the time-outs are settings); \
             a server without TLS leaves rediss:// without an answer too",
        ),
        _ if error.is_connection_refusal() => (
            Trouble::Transient,
            text,
            "nothing listens there: start Redis, or check host and port in the URL",
        ),
        Some(io::ErrorKind::InvalidData) => (
            Trouble::Permanent,
            text,
            "the TLS handshake failed: check that the server speaks TLS, that the CA file is the one its \
             certificate was made with, and that the certificate names the host in the URL",
        ),
        _ if error.is_connection_dropped() => (
            Trouble::Transient,
            text,
            "the server or something between closed the connection; a server that expects TLS does so too (rediss://)",
        ),
        _ if text.contains("lookup address") => {
            (Trouble::Transient, text, "the host name does not resolve: check the URL and the name service")
        }
        _ => (Trouble::Transient, text, ""),
    };
    (trouble, cause, hint)
}

fn find_io<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> Option<&'a io::Error> {
    loop {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found);
        }
        if let Some(shared) = error.downcast_ref::<std::sync::Arc<dyn std::error::Error + Send + Sync>>() {
            return shared.downcast_ref::<io::Error>();
        }
        error = error.source()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_pass_by_themselves_are_transient_and_the_others_permanent() {
        let transient = [
            "LOADING",
            "BUSY",
            "OOM",
            "MISCONF",
            "NOREPLICAS",
            "READONLY",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "TRYAGAIN",
        ];
        for code in transient {
            let (kind, hint) = judge_code(code, "");
            assert_eq!((kind, hint.is_empty()), (Trouble::Transient, false), "{code}");
        }
        for code in ["NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "MOVED"] {
            let (kind, hint) = judge_code(code, "");
            assert_eq!((kind, hint.is_empty()), (Trouble::Permanent, false), "{code}");
        }
        assert_eq!(
            judge_code("ERR", "unknown command 'EVAL_RO', with args beginning with: ").0,
            Trouble::Permanent
        );
        assert_eq!(judge_code("ERR", "something new").0, Trouble::Transient);
    }

    #[test]
    fn a_refused_connection_names_address_and_remedy() {
        let refused = RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        let error = from_redis("redis://h:1", "connect", "", &refused);
        assert!(error.is_transient());
        let text = error.to_string();
        assert!(text.contains("redis://h:1") && text.contains("remedy: nothing listens"), "{text}");
    }
}
