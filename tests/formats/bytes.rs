//! Whatever bytes come, a decoder answers: a change, control, or a reason. Nothing panics, and nothing is applied
//! that the same bytes would not apply again.

use driftless::pure::formats::{Header, Record};
use proptest::prelude::*;

use super::messages::{FORMATS, catalog, messages};

/// The decoder of a format under the configuration of its folder.
fn decode(name: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> String {
    thread_local! {
        static CATALOGS: Vec<std::sync::Arc<driftless::pure::catalog::Catalog>> =
            FORMATS.iter().map(|name| catalog(&format!("{name}/driftless.toml"), &[])).collect();
    }
    let at = FORMATS.iter().position(|known| *known == name).expect("a format");
    let headers = [Header { name: "line-no".into(), value: key.map(Into::into) }];
    let record = Record { offset: 7, key, value, headers: &headers };
    CATALOGS.with(|catalogs| format!("{:?}", catalogs[at].topics[0].decoder.decode(&record)))
}

/// A cut, a doubled part, or other bytes somewhere in a message.
fn damaged(mut bytes: Vec<u8>, (kind, at, with): (u8, usize, u8)) -> Vec<u8> {
    let at = at % (bytes.len() + 1);
    match kind % 4 {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, with),
        2 if at < bytes.len() => bytes[at] = with,
        _ => {
            let tail = bytes[at..].to_vec();
            bytes.extend(tail);
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_get_an_answer(
        key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        value in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)),
    ) {
        for name in FORMATS {
            let answer = decode(name, key.as_deref(), value.as_deref());
            prop_assert_eq!(&answer, &decode(name, key.as_deref(), value.as_deref()));
        }
    }

    #[test]
    fn damaged_messages_get_an_answer(
        number in any::<usize>(),
        damage in any::<(u8, usize, u8)>(),
        of_key in any::<bool>(),
    ) {
        for name in FORMATS {
            let recorded = messages(name);
            let message = &recorded[number % recorded.len()];
            let (mut key, mut value) = (message.key.clone().map(String::into_bytes), message.value.clone().map(String::into_bytes));
            let part = if of_key { &mut key } else { &mut value };
            *part = part.take().map(|bytes| damaged(bytes, damage));
            let answer = decode(name, key.as_deref(), value.as_deref());
            prop_assert_eq!(&answer, &decode(name, key.as_deref(), value.as_deref()));
        }
    }

    #[test]
    fn values_of_every_kind_in_every_place_get_an_answer(number in any::<usize>(), place in any::<usize>(), kind in 0usize..12) {
        let odd = ["null", "true", "-1", "1e400", "1e-400", "\"\"", "\"\\u0000\"", "[]", "{}", "[{}]",
            "99999999999999999999999999999999999999999999", "{\"scale\":-2147483648,\"value\":\"AQ==\"}"];
        for name in FORMATS {
            let recorded = messages(name);
            let message = &recorded[number % recorded.len()];
            let Some(value) = &message.value else { continue };
            // One value, wherever a colon stands before it, is replaced.
            let colons: Vec<usize> = value.match_indices("\":").map(|(at, _)| at + 2).collect();
            let from = colons[place % colons.len()];
            let rest = &value[from..];
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
            if !matches!(stream.next(), Some(Ok(_))) {
                continue; // inside a text
            }
            let changed = format!("{}{}{}", &value[..from], odd[kind], &rest[stream.byte_offset()..]);
            decode(name, message.key.as_deref().map(str::as_bytes), Some(changed.as_bytes()));
        }
    }
}

#[test]
fn nesting_without_end_is_no_json() {
    for name in FORMATS {
        for open in ["[", "{\"payload\":", "{\"a\":["] {
            let deep = open.repeat(200_000);
            assert!(decode(name, None, Some(deep.as_bytes())).contains("NotJson"), "{name} {open}");
        }
    }
}
