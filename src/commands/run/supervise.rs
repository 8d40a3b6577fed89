//! Which generations a running maintainer has in hand: the live one is published; candidates and the way back follow
//! the log beside it. The control file is looked at again and again: what an operator writes there is carried out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::{Shown, work};
use crate::commands::CommandError;
use crate::commands::context::Context;
use crate::commands::reconcile::scheduled;
use crate::pipeline::maintain::Board;
use crate::pure::generation::Control;

/// How often the control file is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long a follower that could not go on waits before it tries again.
const RETRY: Duration = Duration::from_secs(5);

/// Maintains the live generation, whichever that is, until `stop` is set.
pub(super) fn run(
    mut context: Context,
    once: bool,
    stop: &AtomicBool,
    shown: &Shown,
) -> Result<(), CommandError> {
    loop {
        context.refuse_unbuilt()?;
        // Ends this round: the maintainer is to end, or another generation has become the live one.
        let round_ends = AtomicBool::new(false);
        let board = shown.renew();
        let settings = context.maintain_settings(once);
        std::thread::scope(|scope| {
            let _followers_end_too = EndRound(&round_ends);
            if !once && context.settings().reconcile.schedule().is_some() {
                scope.spawn(|| scheduled::run(&context, stop, &round_ends));
            }
            let live = scope.spawn(|| work::maintain(&context, &settings, &round_ends, &board));
            let mut followers = Followers::new(&context, &round_ends);
            while !live.is_finished() {
                let over = stop.load(Ordering::Relaxed);
                if over || !once && !followers.look(scope) {
                    round_ends.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(if once || over { LOOK / 10 } else { LOOK });
            }
            live.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        if once || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        context = context.live_now()?;
        tracing::info!(generation = context.generation(), "another generation is live now");
    }
}

/// Ends the followers also where the live one failed.
struct EndRound<'a>(&'a AtomicBool);

impl Drop for EndRound<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The generations that follow the log beside the live one, each on a thread of its own.
struct Followers<'scope, 'a> {
    context: &'a Context,
    round_ends: &'a AtomicBool,
    running: BTreeMap<String, Follower<'scope>>,
    not_before: BTreeMap<String, Instant>,
    trouble: String,
}

struct Follower<'scope> {
    ends: Arc<AtomicBool>,
    thread: ScopedJoinHandle<'scope, Result<(), CommandError>>,
}

impl<'scope, 'a> Followers<'scope, 'a> {
    fn new(context: &'a Context, round_ends: &'a AtomicBool) -> Self {
        let (running, not_before, trouble) = (BTreeMap::new(), BTreeMap::new(), String::new());
        Followers { context, round_ends, running, not_before, trouble }
    }

    /// Does what the control file asks for. False where another generation is to be live.
    fn look<'env>(&mut self, scope: &'scope Scope<'scope, 'env>) -> bool {
        let control = match self.context.control_file().load() {
            Ok(Some(control)) => control,
            Ok(None) => return true,
            Err(error) => {
                // Nothing is changed on the word of a file that cannot be read.
                let trouble = error.to_string();
                if self.trouble != trouble {
                    tracing::error!(%error, "generations stay as they are");
                }
                self.trouble = trouble;
                return true;
            }
        };
        self.trouble.clear();
        if control.live().name != self.context.generation() {
            self.end_all();
            return false;
        }
        self.adjust(scope, &control);
        true
    }

    fn adjust<'env>(&mut self, scope: &'scope Scope<'scope, 'env>, control: &Control) {
        let wanted: Vec<&str> = control
            .followers(self.context.clock.wall_ms())
            .map(|generation| generation.name.as_str())
            .collect();
        // 1. Those that have ended, and those that are to end.
        let ended: Vec<String> = self
            .running
            .iter()
            .filter(|(_, follower)| follower.thread.is_finished())
            .map(|(name, _)| name.clone())
            .collect();
        for name in ended {
            let Some(follower) = self.running.remove(&name) else { continue };
            if let Ok(Err(error)) = follower.thread.join() {
                tracing::warn!(generation = name, %error, "this generation does not follow the log for now");
            }
            self.not_before.insert(name, Instant::now() + RETRY);
        }
        for (name, follower) in &self.running {
            if !wanted.contains(&name.as_str()) {
                follower.ends.store(true, Ordering::Relaxed);
            }
        }
        // 2. Those that are to begin.
        for name in wanted {
            let waits = self.not_before.get(name).is_some_and(|at| Instant::now() < *at);
            if !waits && !self.running.contains_key(name) {
                self.begin(scope, control, name);
            }
        }
    }

    fn begin<'env>(&mut self, scope: &'scope Scope<'scope, 'env>, control: &Control, name: &str) {
        let file = self.context.control_file();
        let context = match self.context.of_generation(&file, control, name) {
            Ok(context) => context,
            Err(error) => {
                tracing::warn!(generation = name, %error, "this generation cannot be opened");
                self.not_before.insert(name.to_owned(), Instant::now() + RETRY);
                return;
            }
        };
        tracing::info!(generation = name, "follows the log beside the live one");
        let ends = Arc::new(AtomicBool::new(self.round_ends.load(Ordering::Relaxed)));
        let flag = ends.clone();
        let thread = scope.spawn(move || {
            let settings = context.maintain_settings(false);
            Ok(work::follow(&context, &settings, None, &flag, &Board::default())?)
        });
        self.running.insert(name.to_owned(), Follower { ends, thread });
    }

    fn end_all(&self) {
        for follower in self.running.values() {
            follower.ends.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Followers<'_, '_> {
    fn drop(&mut self) {
        self.end_all();
    }
}
