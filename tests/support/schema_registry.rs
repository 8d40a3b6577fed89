//! A schema registry of the tests' own, over real HTTP on a free port: schemas by number, what was asked, and
//! trouble on demand.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use driftless::io::registry::{HttpRegistry, RegistrySettings};
use driftless::pipeline::schemas::Registry;
use driftless::pure::secret::Secret;
use serde_json::{Value, json};

#[derive(Default)]
struct State {
    schemas: BTreeMap<u32, Value>,
    asked: Vec<u32>,
    /// The status that every question gets in place of an answer.
    status: Option<u16>,
}

/// The registry; it answers until the test's process ends.
pub struct StandIn {
    address: String,
    state: Arc<Mutex<State>>,
}

impl StandIn {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let answering = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answering = answering.clone();
                std::thread::spawn(move || serve(stream, &answering));
            }
        });
        StandIn { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client of it, with the user's name and password that it wants.
    pub fn client(&self, password: &str) -> Registry {
        let settings = RegistrySettings {
            url: self.url(),
            username: Some("reader".to_owned()),
            password: Some(Secret::new(password)),
            timeout_ms: 2_000,
        };
        Some(Arc::new(HttpRegistry::open(&settings).expect("an address")))
    }

    pub fn put(&self, id: u32, schema: &Value) {
        self.put_answer(id, json!({"schema": schema.to_string()}));
    }

    pub fn put_answer(&self, id: u32, answer: Value) {
        self.state.lock().expect("no panic").schemas.insert(id, answer);
    }

    pub fn fail_with(&self, status: Option<u16>) {
        self.state.lock().expect("no panic").status = status;
    }

    pub fn asked(&self) -> Vec<u32> {
        self.state.lock().expect("no panic").asked.clone()
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut stream = stream;
    loop {
        let (mut first, mut authorization) = (String::new(), String::new());
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("authorization: ") {
                authorization = line[line.len() - value.len()..].trim().to_owned();
            }
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let id = path.strip_prefix("/schemas/ids/").and_then(|id| id.parse::<u32>().ok());
        let mut state = state.lock().expect("no panic");
        state.asked.extend(id);
        let found = id.and_then(|id| state.schemas.get(&id).cloned());
        // reader:secret
        let (status, body) = match (state.status, found) {
            _ if authorization != "Basic cmVhZGVyOnNlY3JldA==" => (401, json!({"error_code": 401})),
            (Some(status), _) => (status, json!({"error_code": status})),
            (None, Some(answer)) => (200, answer),
            (None, None) => (404, json!({"error_code": 40403, "message": "Schema not found"})),
        };
        let body = body.to_string();
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/vnd.schemaregistry.v1+json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
