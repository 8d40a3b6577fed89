//! Headers of records: handed out where they are asked for, in their order, null and empty told apart.

use driftless::io::kafka::{KafkaLog, KafkaSettings};
use driftless::ports::{Log, LogItem};
use driftless::pure::formats::Header;

use crate::cluster::*;

#[test]
fn headers_come_with_their_record_where_they_are_asked_for_and_cost_nothing_elsewhere() {
    on_each(|cluster| {
        let topic = cluster.topic("headers", 1);
        let header =
            |name: &str, value: Option<&[u8]>| Header { name: name.into(), value: value.map(Into::into) };
        let sent = [
            vec![header("line-no", Some(b"1")), header("empty", Some(b"")), header("line-no", Some(b"\xff"))],
            Vec::new(),
            vec![header("null", None)],
        ];
        let producer = cluster.producer();
        for headers in &sent {
            producer.send_with_headers(&topic, Some(0), None, Some(b"x"), headers).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        for asked in [true, false] {
            let settings = KafkaSettings { headers: asked, ..cluster.settings() };
            let mut log = KafkaLog::open(&settings, std::slice::from_ref(&topic)).unwrap();
            log.assign(&[(at(&topic, 0), 0)]).unwrap();
            let mut found: Vec<Vec<Header>> = Vec::new();
            let since = std::time::Instant::now();
            while found.len() < sent.len() {
                assert!(since.elapsed() < PATIENCE, "{} records came", found.len());
                let taken = log.poll(10, std::time::Duration::from_millis(200), &mut |item| {
                    if let LogItem::Record(record) = item {
                        found.push(record.headers.to_vec());
                    }
                });
                taken.unwrap();
            }
            match asked {
                true => assert_eq!(found, sent),
                false => assert!(found.iter().all(Vec::is_empty)),
            }
        }
    });
}
