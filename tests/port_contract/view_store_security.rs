//! Passwords, rights and TLS of a real Redis: what they ask for, and that no message shows a secret.

use std::path::Path;
use std::process::Command;

use driftless::io::redis::{PrivateRedisOptions, RedisSettings, RedisStore, TlsFiles};
use driftless::ports::{Trouble, ViewStore};
use driftless::pure::secret::Secret;

use crate::redis_server::start;
use crate::view_store::*;

const PLANTED: &str = "planted \"s3cret\" pw";

#[test]
fn passwords_are_asked_for_and_never_shown() {
    let server =
        start(PrivateRedisOptions { password: Some(Secret::new(PLANTED)), ..PrivateRedisOptions::default() });
    let with = |username: Option<&str>, password: Option<&str>| {
        let settings = RedisSettings {
            username: username.map(str::to_owned),
            password: password.map(Secret::new),
            ..server.settings()
        };
        assert!(!format!("{settings:?}").contains("s3cret"));
        RedisStore::new(&settings).unwrap().read_meta(VIEW)
    };
    assert!(with(None, Some(PLANTED)).unwrap().is_empty());
    assert!(with(Some("default"), Some(PLANTED)).unwrap().is_empty());
    check_error(&with(None, None).unwrap_err(), Trouble::Permanent, &["NOAUTH", "set the Redis password"]);
    let wrong = with(None, Some("another s3cret")).unwrap_err();
    check_error(&wrong, Trouble::Permanent, &["refused", "127.0.0.1"]);
    let wrong = with(Some("nobody"), Some(PLANTED)).unwrap_err();
    check_error(&wrong, Trouble::Permanent, &["refused"]);

    let in_url = RedisSettings {
        url: format!("redis://default:planted%20%22s3cret%22%20pw@127.0.0.1:{}", server.port()),
        password: None,
        ..server.settings()
    };
    let mut store = RedisStore::new(&in_url).unwrap();
    assert!(store.read_meta(VIEW).unwrap().is_empty());
    assert!(!store.address().contains("s3cret"));
    for url in [
        "redis://:s3cret@",
        "redis://u:s3cret@h:x",
        "http://u:s3cret@h",
        "s3cret",
        "rediss://u:s3cret@h/#insecure",
    ] {
        let settings = RedisSettings { url: url.into(), ..server.settings() };
        let refused = RedisStore::new(&settings).and_then(|mut store| store.read_meta(VIEW));
        check_error(&refused.unwrap_err(), Trouble::Permanent, &[]);
    }
}

/// The user that the hint of NOPERM describes can do everything; one that lacks a single right of the
/// script's writes changes nothing.
#[test]
fn a_user_with_too_few_rights_writes_nothing_by_half() {
    const COMMANDS: &str = "+eval +evalsha +eval_ro +evalsha_ro +multi +exec +type +hgetall +hmget +hset +hincrby \
                            +unlink +exists +zcard +zadd +zrem +zmscore +zrangebylex +xadd +scan +info";
    let bench = RealBench::start();
    let user = |name: &str, commands: &str| {
        let mut acl = vec!["ACL", "SETUSER", name, "on", "nopass", "~driftless:*", "-@all"];
        acl.extend(commands.split_whitespace());
        bench.run::<()>(&acl);
        let settings = RedisSettings { username: Some(name.to_owned()), ..bench.server.settings() };
        RedisStore::new(&settings).unwrap()
    };
    let mut full = user("full", COMMANDS);
    assert!(full.probe().unwrap().warnings.is_empty());
    first(&mut full, vec![set_all("a", 1)]);
    bench.add_stray("s");
    assert_eq!(strays(&mut full), ["s"]);
    assert_eq!((index(&mut full).len(), row(&mut full, "a").len()), (1, 3));

    let before = bench.everything();
    for lacking in ["hset", "hincrby", "unlink", "zadd", "zrem", "xadd", "hmget", "zcard", "type"] {
        let mut less = user("less", &format!("{COMMANDS} -{lacking}"));
        let next = publish(&cursor(1, "n"), &cursor(2, "n"), vec![set_all("a", 2), remove("b")]);
        let error = less.publish(VIEW, &columns(), &next).unwrap_err();
        check_error(&error, Trouble::Permanent, &["NOPERM"]);
        assert_eq!(bench.everything(), before, "without {lacking}");
    }
    let settings = RedisSettings {
        prefix: "elsewhere".into(),
        username: Some("full".into()),
        ..bench.server.settings()
    };
    let error = RedisStore::new(&settings).unwrap().read_meta(VIEW).unwrap_err();
    check_error(&error, Trouble::Permanent, &["NOPERM", "elsewhere:{agg_daily_product}"]);
}

#[test]
fn tls_with_a_certificate_authority_of_our_own() {
    let folder = tempfile::tempdir().unwrap();
    let Some(tls) = make_certificates(folder.path()) else {
        eprintln!("SKIPPED tls_with_a_certificate_authority_of_our_own: no openssl command on the PATH");
        return;
    };
    let other = tempfile::tempdir().unwrap();
    let other = make_certificates(other.path()).map(|files| (files, other)).unwrap();
    let server = start(PrivateRedisOptions {
        tls: Some(tls),
        password: Some(Secret::new(PLANTED)),
        ..PrivateRedisOptions::default()
    });
    let mut store = RedisStore::new(&server.settings()).unwrap();
    first(&mut store, vec![set_all("a", 1)]);
    assert_eq!(row(&mut store, "a")["lines"], "1");
    assert!(store.address().starts_with("rediss://"));

    let read = |settings: RedisSettings| {
        RedisStore::new(&settings).and_then(|mut store| store.read_meta(VIEW)).unwrap_err()
    };
    let distrusted = read(RedisSettings { tls_ca_file: Some(other.0.ca.clone()), ..server.settings() });
    check_error(&distrusted, Trouble::Permanent, &["TLS", "CA file"]);
    let plain =
        read(RedisSettings { url: format!("redis://127.0.0.1:{}", server.port()), ..server.settings() });
    check_error(&plain, Trouble::Transient, &["rediss://"]);
    let missing =
        read(RedisSettings { tls_ca_file: Some("/nonexistent/ca.pem".into()), ..server.settings() });
    check_error(&missing, Trouble::Permanent, &["/nonexistent/ca.pem"]);
}

/// A certificate authority and a server certificate for 127.0.0.1; `None` without an `openssl` command.
fn make_certificates(folder: &Path) -> Option<TlsFiles> {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").current_dir(folder).args(arguments.split_whitespace()).output();
        let output = match output {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            output => output.unwrap(),
        };
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        Some(())
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    std::fs::write(folder.join("ext"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=driftless-test-ca"))?;
    openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=driftless-test"))?;
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile ext",
    )?;
    Some(TlsFiles {
        ca: folder.join("ca.pem"),
        cert: folder.join("server.pem"),
        key: folder.join("server.key"),
    })
}
