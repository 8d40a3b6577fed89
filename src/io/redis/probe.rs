//! Whether a server is fit for views: what to ask it, and what its answers mean. Repairs nothing.

use redis::{Connection, ErrorKind, RedisResult, ServerErrorKind, Value};

use super::keys::ViewKeys;
use super::script;
use crate::ports::{PortError, PortResult};

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFacts {
    /// Such as `7.0.15`, or `unknown` where the user may not ask.
    pub version: String,
    /// `maxmemory-policy`, or `unknown`.
    pub policy: String,
    /// For the operator to read, each with its remedy.
    pub warnings: Vec<String>,
}

/// Raw answers; `None` where the user may not ask.
pub(super) struct Answers {
    info: Option<String>,
    policy: Option<String>,
}

/// Asks the server, and runs the real read script rather than a `PING`.
pub(super) fn ask(connection: &mut Connection, keys: &ViewKeys) -> RedisResult<Answers> {
    let info: Option<String> = permitted(redis::cmd("INFO").query(connection))?;
    let policy = match info.as_deref().and_then(|info| field(info, "maxmemory_policy")) {
        Some(policy) => Some(policy.to_owned()),
        None => {
            let reply = redis::cmd("CONFIG").arg("GET").arg("maxmemory-policy").query(connection);
            permitted(reply)?.and_then(|pair: Vec<String>| pair.into_iter().nth(1))
        }
    };
    let answers = Answers { info, policy };
    // An old server is told so by its version rather than by an unknown command.
    if answers.version().is_none_or(|version| major(version) >= Some(7)) {
        let run = |connection: &mut Connection| {
            script::READ.run(connection, |cmd| {
                cmd.arg(1).arg(&keys.meta).arg("-").arg("+").arg(0);
            })
        };
        let _: Value = run(connection)?;
    }
    Ok(answers)
}

/// Managed services forbid or remove some commands: that is an answer too.
fn permitted<T>(reply: RedisResult<T>) -> RedisResult<Option<T>> {
    match reply {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::ResponseError) => Ok(None),
            _ => Err(error),
        },
    }
}

impl Answers {
    fn version(&self) -> Option<&str> {
        field(self.info.as_deref()?, "redis_version")
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(field, _)| *field == name)
        .map(|(_, value)| value.trim())
}

fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// Says no where views cannot be kept, and collects what is doubtful.
pub(super) fn judge(address: &str, answers: Answers) -> PortResult<StoreFacts> {
    let mut warnings = Vec::new();
    let info = answers.info.as_deref().unwrap_or_default();
    let version = answers.version().unwrap_or("unknown").to_owned();
    match major(&version) {
        Some(major) if major < 7 => {
            return Err(PortError::permanent(format!(
                "Redis at {address} has version {version}; driftless needs 7.0 or later"
            ))
            .with_hint("upgrade the server (Valkey of any version will do): only since 7.0 is a script refused as a whole when memory is out"));
        }
        Some(_) => {}
        None => warnings.push(format!(
            "could not check the version of Redis at {address}: it must be 7.0 or later; let the user run INFO to have it checked"
        )),
    }
    if field(info, "role").is_some_and(|role| role != "master") {
        let master = match (field(info, "master_host"), field(info, "master_port")) {
            (Some(host), Some(port)) => format!("; its master is {host}:{port}"),
            _ => String::new(),
        };
        return Err(PortError::permanent(format!(
            "Redis at {address} is a replica, and publishing needs the master{master}"
        ))
        .with_hint("set the Redis URL to the master's address, or to a name that follows it in a failover"));
    }
    if field(info, "cluster_enabled") == Some("1") {
        warnings.push(format!(
            "Redis at {address} is a cluster node: only views whose slot it holds can be published there"
        ));
    }
    let policy = answers.policy.unwrap_or_else(|| "unknown".to_owned());
    warnings.extend(policy_warning(address, &policy));
    Ok(StoreFacts { version, policy, warnings })
}

fn policy_warning(address: &str, policy: &str) -> Option<String> {
    match policy {
        "noeviction" => None,
        "unknown" => Some(format!(
            "could not check maxmemory-policy of Redis at {address}: make sure that it is noeviction"
        )),
        // Keys of a view have no expiry, so these policies spare them; others' keys are the ones that go.
        volatile if volatile.starts_with("volatile-") => Some(format!(
            "Redis at {address} has maxmemory-policy {volatile}: views are spared, for their keys have no expiry; \
             noeviction says so for certain"
        )),
        evicting => Some(format!(
            "Redis at {address} has maxmemory-policy {evicting} and WILL DELETE GROUPS when memory is short: \
             `CONFIG SET maxmemory-policy noeviction`, or give views a server of their own"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(info: &str, policy: Option<&str>) -> PortResult<StoreFacts> {
        let answers = Answers { info: Some(info.to_owned()), policy: policy.map(str::to_owned) };
        judge("redis://h:1", answers)
    }

    #[test]
    fn a_fit_server_has_no_warnings() {
        let facts = judged("# Server\r\nredis_version:7.0.15\r\nrole:master\r\n", Some("noeviction"));
        assert_eq!(
            facts.unwrap(),
            StoreFacts { version: "7.0.15".into(), policy: "noeviction".into(), warnings: vec![] }
        );
    }

    #[test]
    fn valkey_tells_the_version_it_is_compatible_with() {
        let info = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nrole:master\r\n";
        assert_eq!(judged(info, Some("noeviction")).unwrap().version, "7.2.4");
    }

    #[test]
    fn old_servers_and_replicas_are_refused_with_a_remedy() {
        let old = judged("redis_version:6.2.14\r\nrole:master\r\n", None).unwrap_err();
        assert!(!old.is_transient() && old.to_string().contains("7.0 or later"));
        let replica = "redis_version:7.2.0\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n";
        let replica = judged(replica, Some("noeviction")).unwrap_err();
        assert!(replica.to_string().contains("its master is 10.0.0.1:6379"));
    }

    #[test]
    fn eviction_and_what_could_not_be_checked_are_warned_of() {
        let info = "redis_version:7.0.0\r\nrole:master\r\n";
        let evicting = judged(info, Some("allkeys-lru")).unwrap();
        assert!(evicting.warnings[0].contains("WILL DELETE GROUPS"));
        assert!(judged(info, Some("volatile-ttl")).unwrap().warnings[0].contains("spared"));
        assert!(judged(info, None).unwrap().warnings[0].contains("could not check"));
        let nothing = judge("a", Answers { info: None, policy: None }).unwrap();
        assert_eq!((nothing.version.as_str(), nothing.warnings.len()), ("unknown", 2));
        assert!(judged(":::\r\n\r\nredis_version\r\nredis_version:x.y\r\n", None).is_ok());
    }
}
