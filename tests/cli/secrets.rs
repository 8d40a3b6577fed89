//! A password, wherever it was put, is never printed: not by a command, not in a log, not with every detail on.

use std::time::Duration;

use driftless::io::redis::PrivateRedisOptions;

use crate::installation::{Answer, Installation, TABLE};
use crate::place::{self, closed_address};
use crate::redis_server;

/// Occurs nowhere else.
const PLANTED: &str = "q7-Planted.Secret_w9";

#[track_caller]
fn assert_hidden(answer: &Answer) {
    let text = answer.text();
    assert!(!answer.out.contains(PLANTED) && !answer.err.contains(PLANTED), "the secret is in:\n{text}");
    assert!(answer.code.is_some(), "{text}");
}

/// Commands that reach for servers, all at once, with every detail on, in both forms of the log. Returns what they
/// said.
fn all_answers(installation: &Installation, variables: &[(&str, &str)], arguments: &[&str]) -> Vec<Answer> {
    let start = |name: &[&str], log: &str| {
        let mut command = installation.command(&[name, &["--log", log], arguments].concat());
        command.env("DRIFTLESS_LOG", "trace").envs(variables.iter().copied());
        installation.start(command)
    };
    let (mut asking, mut maintaining) = (Vec::new(), Vec::new());
    for log in ["text", "json"] {
        for name in [&["status", "--format", "json"][..], &["status"], &["checksum", "--from", "redis"]] {
            asking.push(start(name, log));
        }
        // Each on a base of its own: the lock is another test's matter.
        maintaining.push(start(&["run", "--set", &format!("base.path={log}.db")], log));
    }
    std::thread::sleep(Duration::from_millis(1_200));
    for running in &mut maintaining {
        if !running.has_ended() {
            running.signal("TERM");
        }
    }
    let answers: Vec<Answer> =
        asking.into_iter().chain(maintaining).map(|running| running.wait(Duration::from_secs(30))).collect();
    answers.iter().for_each(assert_hidden);
    answers
}

#[test]
fn the_redis_password_of_environment_file_and_url_is_hidden_while_redis_is_away() {
    let installation = place::seeded();
    all_answers(&installation, &[("DRIFTLESS_REDIS_PASSWORD", PLANTED)], &[]);
    let file = installation.write("password", format!("{PLANTED}\n"));
    all_answers(&installation, &[("DRIFTLESS_REDIS_PASSWORD_FILE", file.to_str().unwrap())], &[]);
    let url = format!("redis.url=redis://somebody:{PLANTED}@{}", closed_address());
    all_answers(&installation, &[], &["--set", &url]);
}

#[test]
fn a_redis_that_refuses_the_password_is_told_without_it() {
    let installation = place::seeded();
    let redis = redis_server::start(PrivateRedisOptions {
        password: Some(driftless::pure::secret::Secret::new("another")),
        ..PrivateRedisOptions::default()
    });
    let address = format!("127.0.0.1:{}", redis.port());
    let url = format!("redis.url=redis://{address}");
    let answers = all_answers(&installation, &[("DRIFTLESS_REDIS_PASSWORD", PLANTED)], &["--set", &url]);
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.code == Some(2)).collect();
    assert!(refused.len() >= 4, "checksum and run end with trouble, both in both logs");
    let url = format!("redis.url=redis://somebody:{PLANTED}@{address}");
    all_answers(&installation, &[], &["--set", &url]);
}

#[test]
fn a_url_that_cannot_be_read_is_told_without_its_password() {
    let installation = place::seeded();
    for url in [
        format!("redis//:{PLANTED}@localhost"),
        format!("http://:{PLANTED}@localhost"),
        format!("redis://:{PLANTED}@local host:x/y"),
        format!("redis://:{PLANTED}@127.0.0.1:99999"),
    ] {
        let mut command = installation.command(&["checksum", "--from", "redis"]);
        command.env("DRIFTLESS_REDIS", &url);
        let answer = installation.run_command(command).expect(2);
        assert_hidden(&answer);
    }
}

#[test]
fn kafka_passwords_of_file_and_environment_are_hidden() {
    let installation = place::seeded();
    let text = std::fs::read_to_string(installation.path("driftless.toml")).unwrap();
    let with = |properties: &str| text.replace(TABLE, &format!("[kafka.properties]\n{properties}\n{TABLE}"));
    // A build without TLS refuses SASL at once; one with it meets a broker that does not answer.
    let sasl = "\"security.protocol\" = \"SASL_PLAINTEXT\"\n\"sasl.mechanism\" = \"PLAIN\"\n\"sasl.username\" = \"u\"";
    installation.write("driftless.toml", with(&format!("{sasl}\n\"sasl.password\" = \"{PLANTED}\"")));
    all_answers(&installation, &[], &[]);
    installation.write("driftless.toml", with(sasl));
    all_answers(&installation, &[("DRIFTLESS_KAFKA_PASSWORD", PLANTED)], &[]);
    installation.write("driftless.toml", with(&format!("\"sasl.password\" = \"{PLANTED}\"")));
    all_answers(&installation, &[], &[]);
    // A value that librdkafka refuses.
    installation
        .write("driftless.toml", with(&format!("\"ssl.key.password\" = \"{PLANTED}\"\n\"nothing\" = \"1\"")));
    all_answers(&installation, &[], &[]);
}

#[test]
fn a_mistake_on_the_line_of_a_password_is_told_without_the_line() {
    let configuration = place::configuration();
    for (from, to) in [
        ("[redis]\n", format!("[redis]\nurl = \"redis://:{PLANTED}@localhost\n")),
        ("[redis]\n", format!("[redis]\npassword = \"{PLANTED}\"\n")),
        ("[redis]\n", format!("[redis]\nurl = \"redis://:{PLANTED}@localhost\" \"\"\n")),
        (TABLE, format!("[kafka.properties]\n\"sasl.password\" = [\"{PLANTED}\"]\n{TABLE}")),
        (TABLE, format!("[kafka.properties]\n\"sasl.password\" = {PLANTED}\n{TABLE}")),
    ] {
        let installation = Installation::new(&configuration.replacen(from, &to, 1));
        let answer = installation.run(&["status"]).expect(2);
        assert_hidden(&answer);
        answer.says(&["driftless.toml", "line "]);
    }
}
