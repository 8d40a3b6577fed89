//! Generations as data: which base files there are, which one is shown to readers, and what an operator may do
//! next. Decides; knows no file system and no clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pure::base::{Head, Word};
use crate::pure::seq::Seq;

/// How far a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its base is being filled; it can be resumed or dropped, and nothing else.
    Building,
    /// It has reached its target: it may be compared, certified, activated.
    Ready,
}

/// Where a generation's base came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// The base that was there before there was any other.
    First,
    /// Read from the log alone.
    Log,
    /// A copy of another generation's base, with part of the log read once more.
    Copy { of: String },
    /// A copy of another generation's base, with views built anew by other contracts.
    Contracts { of: String, objects: Vec<String> },
}

/// How far a replay reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    /// Changes above this sequence are left out.
    pub through_seq: Option<Seq>,
    /// Next offsets that are not read any more, by `topic:partition`.
    pub offsets: BTreeMap<String, i64>,
}

impl Bound {
    /// Without a bound a generation follows the log.
    pub fn is_none(&self) -> bool {
        *self == Bound::default()
    }
}

/// What a certificate says of a state of a generation's base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    pub word: Word,
    /// The state that was examined.
    pub commit: u64,
    pub nonce: String,
    pub watermark: String,
    pub views: BTreeMap<String, ViewProof>,
}

/// The groups of one view as both ways of computing them gave them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewProof {
    pub groups: u64,
    pub rows_sha256: String,
    pub definition_hash: String,
}

/// One base file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    pub name: String,
    /// The file's name, beside the control file.
    pub file: String,
    pub stage: Stage,
    pub origin: Origin,
    #[serde(default, skip_serializing_if = "Bound::is_none")]
    pub bound: Bound,
    pub created: Word,
    /// Definition hash by view.
    pub definitions: BTreeMap<String, String>,
    #[serde(default)]
    pub certificate: Option<Certificate>,
    /// Until when it follows the log for a rollback; only of one that was live.
    #[serde(default)]
    pub rollback_until_ms: Option<i64>,
    /// Its place in the order of those that were live: the greatest is live, or was last.
    #[serde(default)]
    pub activated: u64,
}

/// One step of the history of what readers were shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    pub from: String,
    pub to: String,
    pub word: Word,
    /// The operator allowed it to be behind what is shown.
    pub allow_behind: bool,
}

/// The control file: written before anything else happens, and all that a crash leaves to go on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    pub schema: u32,
    pub live: String,
    pub generations: Vec<Generation>,
    pub history: Vec<Activation>,
}

/// Version of the control file.
pub const SCHEMA: u32 = 1;

/// Activations kept on record.
const HISTORY_MAX: usize = 1_000;

/// What stands against an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    Unknown,
    Building,
    /// An operator may allow it.
    Uncertified,
    /// An operator may allow it; one that follows the log outgrows it.
    Behind,
}

/// Why an activation is refused, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub obstacle: Obstacle,
    pub what: String,
    pub remedy: String,
}

impl Control {
    /// As it is before anybody made a second generation.
    pub fn first(name: &str, file: &str, definitions: BTreeMap<String, String>, at_ms: i64) -> Self {
        let created = Word { who: "driftless".into(), why: "the first base".into(), at_ms };
        Control {
            schema: SCHEMA,
            live: name.to_owned(),
            generations: vec![Generation {
                name: name.to_owned(),
                file: file.to_owned(),
                stage: Stage::Ready,
                origin: Origin::First,
                bound: Bound::default(),
                created,
                definitions,
                certificate: None,
                rollback_until_ms: None,
                activated: 1,
            }],
            history: Vec::new(),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.name == name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.name == name)
    }

    pub fn live(&self) -> &Generation {
        let live = self.get(&self.live);
        live.unwrap_or(&self.generations[0])
    }

    pub fn is_live(&self, name: &str) -> bool {
        self.live().name == name
    }

    /// The control file says one thing only once.
    pub fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema {} is not known here, {SCHEMA} is", self.schema));
        }
        if self.get(&self.live).is_none() {
            return Err(format!("the live generation {} is not among the generations", self.live));
        }
        for (index, generation) in self.generations.iter().enumerate() {
            let twice = |other: &Generation| other.name == generation.name || other.file == generation.file;
            if self.generations[..index].iter().any(twice) {
                return Err(format!("generation {} or its file occurs twice", generation.name));
            }
            if generation.file.contains('/') || generation.file.is_empty() {
                return Err(format!("generation {}: {:?} is no file name", generation.name, generation.file));
            }
        }
        Ok(())
    }

    /// The generation to go back to: the one that was live last, other than the present one.
    pub fn way_back(&self) -> Option<&Generation> {
        let was_live = |generation: &&Generation| generation.activated > 0 && !self.is_live(&generation.name);
        self.generations.iter().filter(was_live).max_by_key(|generation| generation.activated)
    }

    /// Generations that follow the log beside the live one.
    pub fn followers(&self, now_ms: i64) -> impl Iterator<Item = &Generation> {
        self.generations.iter().filter(move |generation| {
            let candidate = generation.activated == 0;
            let kept = generation.rollback_until_ms.is_some_and(|until| now_ms < until);
            generation.stage == Stage::Ready
                && generation.bound.is_none()
                && !self.is_live(&generation.name)
                && (candidate || kept)
        })
    }

    /// A name that no generation has: the next number.
    pub fn next_name(&self) -> String {
        let greatest =
            self.generations.iter().filter_map(|generation| generation.name.parse::<u64>().ok()).max();
        greatest.map_or(self.generations.len() as u64 + 1, |number| number + 1).to_string()
    }

    /// Makes a generation the live one; the present one stays as the way back until `rollback_until_ms`.
    pub fn activate(&mut self, name: &str, word: Word, allow_behind: bool, rollback_until_ms: i64) {
        let from = self.live.clone();
        let order = self.generations.iter().map(|generation| generation.activated).max().unwrap_or(0) + 1;
        for generation in &mut self.generations {
            if generation.name == from {
                generation.rollback_until_ms = Some(rollback_until_ms);
            }
            if generation.name == name {
                generation.activated = order;
                generation.rollback_until_ms = None;
            }
        }
        name.clone_into(&mut self.live);
        self.history.push(Activation { from, to: name.to_owned(), word, allow_behind });
        let surplus = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..surplus);
    }

    /// Whether the live generation was allowed to be behind the one before it.
    pub fn may_be_behind(&self) -> bool {
        self.history.last().is_some_and(|last| last.to == self.live && last.allow_behind)
    }

    /// What stands against making `name` the live one. `candidate` and `live` are the heads of both bases.
    pub fn refusals(&self, name: &str, candidate: &Head, live: &Head) -> Vec<Refusal> {
        let Some(generation) = self.get(name) else {
            return vec![Refusal {
                obstacle: Obstacle::Unknown,
                what: format!("there is no generation {name}"),
                remedy: "driftless generations list names those that there are".to_owned(),
            }];
        };
        let mut refusals = Vec::new();
        if generation.stage == Stage::Building {
            refusals.push(Refusal {
                obstacle: Obstacle::Building,
                what: format!("generation {name} is still being built"),
                remedy: "end its replay first: driftless replay goes on where it stopped".to_owned(),
            });
        }
        if generation.activated == 0 && generation.certificate.is_none() {
            refusals.push(Refusal {
                obstacle: Obstacle::Uncertified,
                what: format!("generation {name} is not certified"),
                remedy: format!("driftless generations certify {name}, or --allow-uncertified"),
            });
        }
        for behind in behind(candidate, live) {
            refusals.push(Refusal {
                obstacle: Obstacle::Behind,
                what: format!("generation {name} is behind what is shown: {behind}"),
                remedy: "wait until it has caught up (driftless run lets it follow), or --allow-behind"
                    .to_owned(),
            });
        }
        refusals
    }
}

/// Where `candidate` is behind `live`: positions and watermarks.
pub fn behind(candidate: &Head, live: &Head) -> Vec<String> {
    let mut found = Vec::new();
    for position in &live.positions {
        let ours = candidate.positions.iter().find(|other| other.at == position.at);
        let next = ours.map_or(0, |ours| ours.next_offset);
        if next < position.next_offset {
            found.push(format!("partition {} at {next}, live at {}", position.at, position.next_offset));
        }
    }
    for (ours, shown) in candidate.tables.iter().zip(&live.tables) {
        if ours.watermark < shown.watermark {
            let text = |seq: Option<Seq>| seq.map_or_else(|| "none".to_owned(), |seq| seq.to_string());
            found.push(format!("watermark {}, live {}", text(ours.watermark), text(shown.watermark)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word() -> Word {
        Word { who: "ada".into(), why: "test".into(), at_ms: 5 }
    }

    fn control() -> Control {
        let mut control = Control::first("1", "driftless.db", BTreeMap::new(), 1);
        let mut second = control.generations[0].clone();
        (second.name, second.file, second.activated) = ("2".into(), "driftless.2.db".into(), 0);
        control.generations.push(second);
        control
    }

    #[test]
    fn a_rollback_is_the_activation_of_the_one_before_and_an_activation_keeps_the_way_back() {
        let mut control = control();
        assert!(control.way_back().is_none());
        assert_eq!(control.followers(10).map(|g| g.name.as_str()).collect::<Vec<_>>(), ["2"]);
        control.activate("2", word(), false, 100);
        assert_eq!((control.live.as_str(), control.way_back().unwrap().name.as_str()), ("2", "1"));
        assert_eq!(control.followers(10).count(), 1, "the old one follows in the rollback window");
        assert_eq!(control.followers(100).count(), 0, "and no longer");
        control.activate("1", word(), true, 200);
        assert_eq!((control.live.as_str(), control.way_back().unwrap().name.as_str()), ("1", "2"));
        assert!(control.may_be_behind());
        assert_eq!(control.history.len(), 2);
        control.check().unwrap();
    }

    #[test]
    fn a_control_file_that_contradicts_itself_is_refused() {
        let mut twice = control();
        twice.generations[1].file = "driftless.db".into();
        assert!(twice.check().unwrap_err().contains("occurs twice"));
        let mut nowhere = control();
        nowhere.live = "9".into();
        assert!(nowhere.check().unwrap_err().contains("live generation 9"));
        let mut path = control();
        path.generations[1].file = "../other.db".into();
        assert!(path.check().is_err());
    }

    #[test]
    fn an_uncertified_or_unfinished_candidate_is_refused_and_one_behind_says_where() {
        let mut control = control();
        control.generations[1].stage = Stage::Building;
        let live = Head { tables: vec![Default::default()], ..Head::default() };
        let refusals = control.refusals("2", &live, &live);
        assert_eq!(refusals.len(), 2, "{refusals:?}");
        let mut ahead = live.clone();
        ahead.tables[0].watermark = Some(Seq::at(7));
        assert!(behind(&live, &ahead)[0].contains("watermark none, live 7"));
        assert!(behind(&ahead, &live).is_empty());
        assert_eq!(control.refusals("3", &live, &live).len(), 1);
    }
}
