//! Which generation a context stands for: its base file, and the contracts that this base was built with. A contract
//! file that says something else never changes a base in place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{CommandError, Context};
use crate::config::{Config, ContractText, catalog_of, contract_texts};
use crate::io::control::ControlFile;
use crate::io::sqlite;
use crate::pipeline::publish::Succession;
use crate::ports::PortResult;
use crate::pure::catalog::Catalog;
use crate::pure::generation::Control;

/// A generation and where its base is.
#[derive(Clone, Debug)]
pub struct Held {
    pub generation: String,
    pub path: PathBuf,
    /// The activation that made it the live one.
    pub activation: u64,
    /// Generations whose publication this one may replace; empty for any but the live one.
    pub replaces: Vec<String>,
    /// The operator allowed it to be behind what is shown.
    pub may_be_behind: bool,
    /// It stands where its replay was told to end, and follows the log no further.
    pub stands_still: bool,
    /// Views whose configured contract is none that a generation was built with, and that contract's place.
    pub unbuilt: Vec<(String, String)>,
    /// Views whose configured contract is that of another generation, and its place.
    pub configured_otherwise: Vec<(String, String)>,
}

impl Held {
    pub fn succession(&self) -> Succession {
        Succession {
            activation: self.activation,
            replaces: self.replaces.clone(),
            may_be_behind: self.may_be_behind,
            stands_still: self.stands_still,
        }
    }
}

/// The context of the live generation.
pub(super) fn live(config: Config) -> Result<Context, CommandError> {
    let file = ControlFile::of(&config.settings.base.path);
    match file.load()? {
        Some(control) => generation(config, &file, &control, &control.live),
        None => {
            let (path, name) = (config.settings.base.path.clone(), config.settings.base.generation.clone());
            let Contracts { catalog, unbuilt, .. } = contracts(&config, &path, &BTreeMap::new())?;
            let mut context = Context::with_catalog(config, Arc::new(catalog))?;
            context.held = Some(Held {
                generation: name,
                path,
                activation: 1,
                replaces: Vec::new(),
                may_be_behind: false,
                stands_still: false,
                unbuilt,
                configured_otherwise: Vec::new(),
            });
            Ok(context)
        }
    }
}

/// The context of a generation of the control file.
pub(super) fn generation(
    config: Config,
    file: &ControlFile,
    control: &Control,
    name: &str,
) -> Result<Context, CommandError> {
    let entry = control.get(name).ok_or_else(|| {
        CommandError::usage(
            format!("there is no generation {name}"),
            "driftless generations list names those that there are",
        )
    })?;
    let path = file.base(&entry.file);
    let mut known: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (object, definition) in control.generations.iter().flat_map(|generation| &generation.definitions) {
        known.entry(object).or_default().push(definition);
    }
    let Contracts { catalog, unbuilt, configured_otherwise } = contracts(&config, &path, &known)?;
    let others = control.generations.iter().map(|other| &other.name).filter(|other| *other != name);
    let held = Held {
        generation: name.to_owned(),
        path,
        activation: entry.activated.max(1),
        replaces: if control.is_live(name) { others.cloned().collect() } else { Vec::new() },
        may_be_behind: control.is_live(name) && control.may_be_behind(),
        stands_still: !entry.bound.is_none(),
        unbuilt,
        configured_otherwise,
    };
    let mut context = Context::with_catalog(config, Arc::new(catalog))?;
    context.held = Some(held);
    Ok(context)
}

/// What a base is opened with.
struct Contracts {
    catalog: Catalog,
    unbuilt: Vec<(String, String)>,
    configured_otherwise: Vec<(String, String)>,
}

/// The configured contracts, each replaced by the one that the base was built with where they differ.
fn contracts(
    config: &Config,
    base: &Path,
    known: &BTreeMap<&str, Vec<&str>>,
) -> Result<Contracts, CommandError> {
    let mut texts = contract_texts(config)?;
    let configured = catalog_of(config, &texts)?;
    let (mut unbuilt, mut configured_otherwise) = (Vec::new(), Vec::new());
    let built = sqlite::built_views(base)?;
    for (text, entry) in texts.iter_mut().zip(&configured.views) {
        let view = &entry.view;
        // The same document with another definition is a changed table, which the base itself tells.
        let changed = |built: &&sqlite::BuiltView| {
            let document: Option<serde_json::Value> = serde_json::from_str(&built.document).ok();
            built.definition_hash != view.definition_hash && document.as_ref() != Some(&view.document)
        };
        let Some(built) = built.get(&view.object).filter(changed) else { continue };
        let elsewhere = known
            .get(view.object.as_str())
            .is_some_and(|known| known.contains(&view.definition_hash.as_str()));
        let found = if elsewhere { &mut configured_otherwise } else { &mut unbuilt };
        found.push((view.object.clone(), text.place.clone()));
        *text = ContractText {
            text: built.document.clone(),
            place: format!("{} (as built into {})", view.object, base.display()),
        };
    }
    Ok(Contracts { catalog: catalog_of(config, &texts)?, unbuilt, configured_otherwise })
}

impl Context {
    /// The same configuration over another generation.
    pub fn of_generation(
        &self,
        file: &ControlFile,
        control: &Control,
        name: &str,
    ) -> Result<Context, CommandError> {
        let mut context = generation(self.config.clone(), file, control, name)?;
        context.redis_password = self.redis_password.clone();
        context.kafka_password = self.kafka_password.clone();
        Ok(context)
    }

    /// The same configuration over whatever is live now.
    pub fn live_now(&self) -> Result<Context, CommandError> {
        let mut context = live(self.config.clone())?;
        context.redis_password = self.redis_password.clone();
        context.kafka_password = self.kafka_password.clone();
        Ok(context)
    }

    /// The same over another base file: a copy to try something on.
    pub fn over_base(&self, path: PathBuf) -> Context {
        let generation = self.generation().to_owned();
        let held = Held {
            generation,
            path,
            activation: 1,
            replaces: Vec::new(),
            may_be_behind: false,
            stands_still: false,
            unbuilt: Vec::new(),
            configured_otherwise: Vec::new(),
        };
        Context { held: Some(held), ..self.clone() }
    }

    /// The generation whose base this context opens.
    pub fn generation(&self) -> &str {
        self.held.as_ref().map_or(&self.settings().base.generation, |held| &held.generation)
    }

    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    pub fn control_file(&self) -> ControlFile {
        ControlFile::of(&self.settings().base.path)
    }

    /// The control file's content; where there is none, what it would be.
    pub fn control(&self) -> PortResult<Control> {
        Ok(self.control_file().load()?.unwrap_or_else(|| self.first_control()))
    }

    /// The control of a base that has had no second generation yet.
    pub fn first_control(&self) -> Control {
        let base = &self.settings().base;
        let file = base.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Control::first(&base.generation, &file, definitions(&self.catalog), self.clock.wall_ms())
    }

    /// A contract that no generation was built with is never put in place by a start.
    pub fn refuse_unbuilt(&self) -> Result<(), CommandError> {
        for (view, contract) in self.held.iter().flat_map(|held| &held.configured_otherwise) {
            tracing::warn!(
                view,
                contract,
                generation = self.generation(),
                "the contract file is that of another generation; the live one goes on with the contract it was built with"
            );
        }
        let Some((object, place)) = self.held.as_ref().and_then(|held| held.unbuilt.first()) else {
            return Ok(());
        };
        Err(CommandError::usage(
            format!(
                "{place} declares view {object} otherwise than the base was built with, and a view is never changed in place"
            ),
            format!(
                "keep the file under another name, put the old contract back into {place}, and build the new one beside it: driftless generations build --contract FILE; then certify and activate it"
            ),
        ))
    }
}

/// Definition hash by view.
pub fn definitions(catalog: &Catalog) -> BTreeMap<String, String> {
    let of = |entry: &crate::pure::catalog::CatalogView| {
        (entry.view.object.clone(), entry.view.definition_hash.clone())
    };
    catalog.views.iter().map(of).collect()
}
