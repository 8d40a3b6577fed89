//! How a command changes something: it puts a request on record, and whoever holds the writer's lock carries
//! it out; where nobody does, the command takes the lock and acts itself.

use crate::commands::output::tell;
use std::time::{Duration, Instant};

use super::context::Context;
use super::{CommandError, Format, Verdict};
use crate::io::sqlite::{RequestBox, SqliteWriter, WriterLock};
use crate::pipeline::ingest::Ingest;
use crate::pipeline::requests;
use crate::ports::BaseWriter;
use crate::pure::base::Action;

/// How long a running maintainer may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who asks: as told, else the user's name.
pub fn caller(who: Option<&str>) -> String {
    who.map(str::to_owned).or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "unknown".into())
}

/// Puts the request on record, has it carried out, and prints the answer.
pub fn ask(
    context: &Context,
    action: &Action,
    who: Option<&str>,
    why: &str,
    format: Format,
) -> Result<Verdict, CommandError> {
    let settings = context.base_settings();
    // Opening for reading first says clearly when there is no base of this configuration.
    drop(context.open_reader()?);
    let who = caller(who);
    let requests = RequestBox::open(&settings)?;
    let id = requests.put(action, &who, why, context.clock.wall_ms())?;
    if let Ok(lock) = WriterLock::try_take(&settings.path)? {
        let now = context.clock.wall_ms();
        let mut base = SqliteWriter::open_locked(lock, &settings, &context.catalog, rand::random(), now)?;
        let known = base.partitions()?;
        let mut ingest = Ingest::open(&mut base, context.catalog.clone(), context.clock.clone(), &known)?;
        ingest.registry = context.open_registry()?;
        requests::carry_out(&mut ingest)?;
    }
    let asked = Instant::now();
    loop {
        if let Some((done, answer)) = requests.answer(id)? {
            match (format, done) {
                (Format::Json, _) => super::output::print_json(
                    &serde_json::json!({"request": id, "done": done, "answer": answer}),
                ),
                (Format::Text, true) => tell!("request {id} done: {answer}"),
                (Format::Text, false) => {
                    tell!("request {id} refused: {}", answer.as_str().unwrap_or_default())
                }
            }
            return Ok(if done { Verdict::Fine } else { Verdict::No });
        }
        if asked.elapsed() > PATIENCE {
            return Err(CommandError::usage(
                format!("request {id} is on record, but the running maintainer has not answered it"),
                "see its log; it is carried out as soon as it can be",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
