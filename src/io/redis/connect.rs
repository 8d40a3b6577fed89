//! From settings to a connection: address, user, TLS and time-outs. Knows nothing of views; keeps no connection.

use std::fs;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, Connection, ConnectionAddr, ConnectionInfo, ProtocolVersion, TlsCertificates,
};

use super::trouble::from_redis;
use super::{RedisSettings, redact_url};
use crate::ports::{PortError, PortResult};

/// Opens connections to one Redis server.
pub(super) struct Connector {
    client: Client,
    address: String,
    connect_timeout: Duration,
    response_timeout: Duration,
}

impl Connector {
    /// Checks the settings and reads the certificates; does not reach for the server.
    pub(super) fn new(settings: &RedisSettings) -> PortResult<Self> {
        let info = connection_info(settings)?;
        let address = match info.addr() {
            ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}"),
            ConnectionAddr::Unix(path) => format!("unix://{}", path.display()),
            other => format!("redis://{other}"),
        };
        let client = match info.addr() {
            ConnectionAddr::TcpTls { .. } => {
                install_crypto();
                Client::build_with_tls(info, certificates(settings)?)
            }
            _ => Client::open(info),
        };
        Ok(Connector {
            client: client.map_err(|error| refused_settings(&settings.url, &error))?,
            address,
            connect_timeout: Duration::from_millis(settings.connect_timeout_ms.max(1)),
            response_timeout: Duration::from_millis(settings.response_timeout_ms.max(1)),
        })
    }

    /// The server's address without credentials, for messages.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn open(&self) -> PortResult<Connection> {
        let open = || {
            let connection = self.client.get_connection_with_timeout(self.connect_timeout)?;
            connection.set_read_timeout(Some(self.response_timeout))?;
            connection.set_write_timeout(Some(self.response_timeout))?;
            Ok(connection)
        };
        open().map_err(|error| from_redis(&self.address, "connect", "", &error))
    }
}

fn connection_info(settings: &RedisSettings) -> PortResult<ConnectionInfo> {
    let info: ConnectionInfo =
        settings.url.parse().map_err(|error| refused_settings(&settings.url, &error))?;
    let mut redis = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("driftless", env!("CARGO_PKG_VERSION"));
    if let Some(username) = &settings.username {
        redis = redis.set_username(username);
    }
    if let Some(password) = &settings.password {
        redis = redis.set_password(password.expose());
    }
    if redis.username().is_some() && redis.password().is_none() {
        // A user that needs no password has to be named all the same, and the client only names one with it.
        redis = redis.set_password("");
    }
    Ok(info.set_redis_settings(redis))
}

/// Of the cause only the fixed part is told: the rest could quote the URL.
fn refused_settings(url: &str, error: &redis::RedisError) -> PortError {
    let cause = error.to_string();
    let cause = cause.split(" - ").next().unwrap_or_default();
    PortError::permanent(format!("the Redis URL {} cannot be used: {cause}", redact_url(url),)).with_hint(
        "write redis://host:port/database, rediss:// for TLS or unix:///path; \
         put user and password into their own settings, or percent-encode them in the URL",
    )
}

fn certificates(settings: &RedisSettings) -> PortResult<TlsCertificates> {
    let client_tls = match (&settings.tls_cert_file, &settings.tls_key_file) {
        (Some(cert), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read_pem(cert)?, client_key: read_pem(key)? })
        }
        (None, None) => None,
        _ => {
            return Err(PortError::permanent(
                "of the TLS client certificate and its key for Redis only one is set",
            )
            .with_hint("set both files, or neither"));
        }
    };
    let root_cert = settings.tls_ca_file.as_deref().map(read_pem).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

fn read_pem(path: &Path) -> PortResult<Vec<u8>> {
    let problem = |cause: String| {
        PortError::permanent(format!("the TLS file {} for Redis cannot be used: {cause}", path.display()))
            .with_hint("name a file in PEM form that this user may read")
    };
    let pem = fs::read(path).map_err(|error| problem(error.to_string()))?;
    // A file without a certificate or key would mean "trust nobody", said much later.
    if !pem.windows(11).any(|window| window == b"-----BEGIN ") {
        return Err(problem("it is not in PEM form".to_owned()));
    }
    Ok(pem)
}

/// Names the one implementation of cryptography that this process uses.
fn install_crypto() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // An error says that there is a default already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
