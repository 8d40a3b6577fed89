//! A schema registry over HTTP, behind the port [`SchemaRegistry`]: one question a schema. Knows addresses and status
//! codes; must not know what a schema says.

use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;

use crate::ports::{PortError, PortResult, SchemaRegistry};
use crate::pure::formats::decimal::to_base64;
use crate::pure::secret::Secret;

/// The longest schema that is taken.
const SCHEMA_BYTES_MAX: u64 = 16 << 20;

/// How to reach a registry.
#[derive(Clone, Debug)]
pub struct RegistrySettings {
    /// `http://host:port` or `https://…`, with the path that questions begin with.
    pub url: String,
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub timeout_ms: u64,
}

/// One registry.
pub struct HttpRegistry {
    agent: Agent,
    url: String,
    authorization: Option<Secret>,
}

#[derive(Deserialize)]
struct Answer {
    schema: String,
    #[serde(default, rename = "schemaType")]
    kind: Option<String>,
    #[serde(default)]
    references: Vec<serde_json::Value>,
}

impl HttpRegistry {
    /// Reaches nobody yet.
    pub fn open(settings: &RegistrySettings) -> PortResult<Self> {
        let url = settings.url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(PortError::permanent("registry.url is no address of a schema registry")
                .with_hint("set registry.url to http://host:port or https://host"));
        }
        if url.contains('@') {
            return Err(PortError::permanent(
                "registry.url holds a user name or password, and is shown in messages",
            )
            .with_hint("set registry.username and DRIFTLESS_REGISTRY_PASSWORD instead"));
        }
        let config = Agent::config_builder()
            .timeout_global(Some(Duration::from_millis(settings.timeout_ms)))
            .http_status_as_error(false)
            .build();
        let authorization = settings.username.as_ref().map(|username| {
            let password = settings.password.as_ref().map(Secret::expose).unwrap_or_default();
            Secret::new(format!("Basic {}", to_base64(format!("{username}:{password}").as_bytes())))
        });
        Ok(HttpRegistry { agent: Agent::new_with_config(config), url, authorization })
    }
}

impl SchemaRegistry for HttpRegistry {
    fn schema(&self, id: u32) -> PortResult<Result<String, String>> {
        let place = format!("schema registry {}: schema {id}", self.url);
        let mut question = self.agent.get(format!("{}/schemas/ids/{id}", self.url));
        if let Some(authorization) = &self.authorization {
            question = question.header("authorization", authorization.expose());
        }
        let mut answer =
            question.call().map_err(|error| PortError::transient(format!("{place}: {error}")))?;
        match answer.status().as_u16() {
            200 => {}
            404 => return Ok(Err("the registry has none of this number".to_owned())),
            status @ (401 | 403) => {
                return Err(PortError::permanent(format!("{place}: refused with status {status}"))
                    .with_hint("set registry.username and DRIFTLESS_REGISTRY_PASSWORD"));
            }
            status => return Err(PortError::transient(format!("{place}: status {status}"))),
        }
        let text = answer
            .body_mut()
            .with_config()
            .limit(SCHEMA_BYTES_MAX)
            .read_to_string()
            .map_err(|error| PortError::transient(format!("{place}: {error}")))?;
        let answer: Answer = serde_json::from_str(&text).map_err(|error| {
            PortError::permanent(format!("{place}: the answer is none of a schema registry: {error}"))
                .with_hint("correct registry.url")
        })?;
        Ok(match answer.kind.as_deref() {
            None | Some("AVRO") if answer.references.is_empty() => Ok(answer.schema),
            None | Some("AVRO") => Err("it refers to other schemas, which is not supported".to_owned()),
            Some(other) => Err(format!("it is of type {other}, only AVRO is supported")),
        })
    }
}
