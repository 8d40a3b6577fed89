//! Learning the schemas that messages name, before they are decoded. Knows the registry through its port.

use std::sync::Arc;

use crate::ports::{PortError, PortResult, SchemaRegistry};
use crate::pure::formats::{Decoder, Record};

/// The registry of a maintainer; none where no topic needs one.
pub type Registry = Option<Arc<dyn SchemaRegistry>>;

/// Asks for the schemas that this message names and that are not known yet; with `again`, for those too that the
/// registry did not have.
pub fn learn(decoder: &Decoder, record: &Record<'_>, registry: &Registry, again: bool) -> PortResult<()> {
    let Some(avro) = decoder.avro() else { return Ok(()) };
    for id in avro.unknown_schemas(record, again) {
        let registry = registry.as_ref().ok_or_else(|| {
            PortError::permanent(format!("schema {id}: there is no schema registry to ask"))
                .with_hint("set registry.url")
        })?;
        let answer = registry.schema(id)?;
        tracing::info!(schema = id, found = answer.is_ok(), "asked the schema registry");
        avro.learn(id, answer);
    }
    Ok(())
}
