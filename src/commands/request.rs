//! How a command changes something: it puts a request on record, and whoever holds the writer's lock carries
//! it out; where nobody does, the command takes the lock and acts itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::context::Context;
use super::output::tell;
use super::{CommandError, Format, Verdict};
use crate::io::sqlite::{RequestBox, SqliteWriter, WriterLock};
use crate::pipeline::ingest::Ingest;
use crate::pipeline::publish::{Publisher, Step};
use crate::pipeline::requests;
use crate::ports::{BaseWriter, PortError, PortResult, Requests};
use crate::pure::base::{Action, Answer};

/// How long a running maintainer may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a publish of one's own may take beyond the time after which a silent publisher is replaced.
const PUBLISH_PATIENCE: Duration = Duration::from_secs(600);

/// The requests of one command.
pub struct Desk<'a> {
    context: &'a Context,
    requests: RequestBox,
    who: String,
    /// Ends waiting.
    stop: &'a AtomicBool,
    /// Whether to act where no maintainer runs; beside one of the same process never.
    acts: bool,
    /// The number of the last request.
    pub last: i64,
}

impl<'a> Desk<'a> {
    pub fn open(context: &'a Context, who: Option<&str>, stop: &'a AtomicBool) -> PortResult<Self> {
        // Opening for reading first says clearly when there is no base of this configuration.
        drop(context.open_reader()?);
        Ok(Desk {
            requests: RequestBox::open(&context.base_settings())?,
            who: caller(who),
            context,
            stop,
            acts: true,
            last: 0,
        })
    }

    /// A desk that only ever waits for the maintainer.
    pub fn beside(context: &'a Context, who: &str, stop: &'a AtomicBool) -> PortResult<Self> {
        Ok(Desk { acts: false, ..Self::open(context, Some(who), stop)? })
    }

    /// Carries out what is on record, where nobody else holds the lock, and publishes a repair.
    fn act(&self, action: &Action) -> PortResult<()> {
        let settings = self.context.base_settings();
        let Ok(lock) = WriterLock::try_take(&settings.path)? else { return Ok(()) };
        let now = self.context.clock.wall_ms();
        let mut base =
            SqliteWriter::open_locked(lock, &settings, &self.context.catalog, rand::random(), now)?;
        let known = base.partitions()?;
        let mut ingest =
            Ingest::open(&mut base, self.context.catalog.clone(), self.context.clock.clone(), &known)?;
        requests::carry_out(&mut ingest)?;
        match action {
            Action::RepairGroups { view, .. } => self.publish(view),
            _ => Ok(()),
        }
    }

    /// Publishes a view until the store shows everything, as its holder of the lock.
    fn publish(&self, object: &str) -> PortResult<()> {
        let Some(view) = self.context.catalog.view(object) else { return Ok(()) };
        let settings = self.context.maintain_settings(true);
        let (catalog, clock) = (self.context.catalog.clone(), self.context.clock.clone());
        let mut publisher = Publisher::new(catalog, view, clock, settings.publish, settings.random)
            .with_succession(settings.succession.clone());
        let (mut reader, mut store) = (self.context.open_reader()?, self.context.open_store()?);
        let began = Instant::now();
        while began.elapsed() < PUBLISH_PATIENCE && !self.stop.load(Ordering::Relaxed) {
            match publisher.step(&mut reader, &mut store) {
                Ok(Step::Idle | Step::Beat) => return Ok(()),
                Ok(Step::Published { .. }) => {}
                Ok(Step::Standby | Step::Refused(_)) => std::thread::sleep(Duration::from_millis(100)),
                Err(error) if error.is_transient() => std::thread::sleep(Duration::from_millis(500)),
                Err(error) => return Err(error),
            }
        }
        Err(PortError::transient(format!("the repair of {object} is in the base, but was not published"))
            .with_hint("start the maintainer; it publishes what the base holds"))
    }
}

impl Requests for Desk<'_> {
    fn ask(&mut self, action: &Action, why: &str) -> PortResult<Answer> {
        let id = self.requests.put(action, &self.who, why, self.context.clock.wall_ms())?;
        self.last = id;
        if self.acts {
            self.act(action)?;
        }
        let asked = Instant::now();
        while asked.elapsed() <= PATIENCE && !self.stop.load(Ordering::Relaxed) {
            if let Some((done, answer)) = self.requests.answer(id)? {
                return Ok(match done {
                    true => Ok(answer),
                    false => Err(answer.as_str().unwrap_or_default().to_owned()),
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(PortError::transient(format!(
            "request {id} is on record, but the running maintainer has not answered it"
        ))
        .with_hint("see its log; it is carried out as soon as it can be"))
    }
}

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
    let never = AtomicBool::new(false);
    let mut desk = Desk::open(context, who, &never)?;
    let answer = desk.ask(action, why)?;
    let id = desk.last;
    match (format, &answer) {
        (Format::Json, answer) => {
            let (done, said) = match answer {
                Ok(said) => (true, said.clone()),
                Err(refusal) => (false, refusal.as_str().into()),
            };
            super::output::print_json(&serde_json::json!({"request": id, "done": done, "answer": said}));
        }
        (Format::Text, Ok(said)) => tell!("request {id} done: {said}"),
        (Format::Text, Err(refusal)) => tell!("request {id} refused: {refusal}"),
    }
    Ok(if answer.is_ok() { Verdict::Fine } else { Verdict::No })
}
