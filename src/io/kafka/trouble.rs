//! What an error of librdkafka or of a broker means: whether it may pass by itself, and what to do about it.
//! Must not know who asked: places (topic, partition, offset) come from the caller.

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;

use crate::ports::{PortError, Trouble};

/// An error code as librdkafka gives it. Brokers may send codes that this client does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub i32);

impl Code {
    pub(super) fn known(self) -> Option<RDKafkaErrorCode> {
        RDKafkaRespErr::try_from(self.0).ok().map(RDKafkaErrorCode::from)
    }

    pub(super) fn is(self, code: RDKafkaErrorCode) -> bool {
        self.0 == code as i32
    }

    pub(super) fn text(self) -> String {
        match self.known() {
            Some(code) => code.to_string(),
            None => format!("broker error code {} (unknown to this client)", self.0),
        }
    }

    /// Whether it may pass, and what an operator can do.
    fn verdict(self) -> (Trouble, Option<&'static str>) {
        use RDKafkaErrorCode as Known;
        use Trouble::{Permanent, Transient};
        let Some(code) = self.known() else {
            return (Transient, None);
        };
        match code {
            Known::AllBrokersDown
            | Known::BrokerTransportFailure
            | Known::OperationTimedOut
            | Known::RequestTimedOut
            | Known::MessageTimedOut
            | Known::Resolve => (
                Transient,
                Some("check that the brokers run and that this machine reaches their advertised addresses"),
            ),
            Known::UnknownTopic
            | Known::UnknownTopicOrPartition
            | Known::UnknownPartition
            | Known::UnknownTopicId
            | Known::InvalidTopic => (
                Permanent,
                Some(
                    "create the topic (driftless produce FILE --partitions N does), or correct its name in the settings",
                ),
            ),
            Known::Authentication
            | Known::SaslAuthenticationFailed
            | Known::UnsupportedSASLMechanism
            | Known::IllegalSASLState => (
                Permanent,
                Some("check sasl.mechanisms, sasl.username and sasl.password, and the brokers' listener"),
            ),
            Known::SSL => (
                Permanent,
                Some("check security.protocol, ssl.ca.location and the brokers' certificates and listener"),
            ),
            Known::TopicAuthorizationFailed => {
                (Permanent, Some("grant this user Read and Describe on the topic"))
            }
            Known::GroupAuthorizationFailed => {
                (Permanent, Some("grant this user Read on the group, or choose a group it may use"))
            }
            Known::ClusterAuthorizationFailed | Known::PolicyViolation => {
                (Permanent, Some("ask the brokers' administrator for the right to do this"))
            }
            Known::MessageSizeTooLarge => (
                Transient,
                Some(
                    "raise receive.message.max.bytes (reading) or message.max.bytes (writing) in the Kafka properties",
                ),
            ),
            Known::LogTruncation => (
                Permanent,
                Some(
                    "the brokers lost records that were already read: reconcile, and start from a new generation",
                ),
            ),
            Known::UnsupportedVersion
            | Known::UnsupportedFeature
            | Known::UnsupportedForMessageFormat
            | Known::UnknownProtocol
            | Known::NotImplemented => {
                (Permanent, Some("the brokers do not offer this: Apache Kafka 2.1 or newer is needed"))
            }
            Known::InvalidArgument
            | Known::InvalidConfig
            | Known::InvalidPartitions
            | Known::InvalidReplicationFactor
            | Known::TopicAlreadyExists
            | Known::Fatal => (Permanent, None),
            _ => (Transient, None),
        }
    }

    /// The error with its cause and remedy.
    pub(super) fn at(self, what: impl Into<String>) -> PortError {
        let (kind, hint) = self.verdict();
        PortError { kind, what: what.into(), hint: hint.map(str::to_string) }
    }

    /// Wrong credentials and broken TLS: permanent at the start, a broker's bad day once it has worked.
    pub(super) fn is_about_identity(self) -> bool {
        [RDKafkaErrorCode::Authentication, RDKafkaErrorCode::SaslAuthenticationFailed, RDKafkaErrorCode::SSL]
            .iter()
            .any(|code| self.is(*code))
    }
}

/// An error of the Rust wrapper: `what` says what was tried and where.
pub(super) fn of_client(error: &KafkaError, what: impl std::fmt::Display) -> PortError {
    match error.rdkafka_error_code() {
        Some(code) => Code(code as i32).at(format!("{what}: {code}")),
        None => PortError::permanent(format!("{what}: {error}")),
    }
}

/// A line of librdkafka's own log. What matters reaches the caller as an error as well, so these lines are
/// for looking closer.
pub(super) fn log_line(level: RDKafkaLogLevel, facility: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => tracing::warn!(facility, "librdkafka: {line}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::debug!(facility, "librdkafka: {line}");
        }
        RDKafkaLogLevel::Debug => tracing::trace!(facility, "librdkafka: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_this_client_does_not_know_is_told_and_may_pass() {
        let error = Code(31_000).at(Code(31_000).text());
        assert!(error.is_transient());
        assert!(error.to_string().contains("31000"));
    }

    #[test]
    fn what_only_a_person_can_change_is_permanent_and_has_a_remedy() {
        for code in [
            RDKafkaErrorCode::UnknownTopicOrPartition,
            RDKafkaErrorCode::SaslAuthenticationFailed,
            RDKafkaErrorCode::SSL,
            RDKafkaErrorCode::TopicAuthorizationFailed,
            RDKafkaErrorCode::LogTruncation,
        ] {
            let error = Code(code as i32).at("x");
            assert!(!error.is_transient(), "{code:?}");
            assert!(error.hint.is_some(), "{code:?}");
        }
        assert!(Code(RDKafkaErrorCode::AllBrokersDown as i32).at("x").is_transient());
    }
}
