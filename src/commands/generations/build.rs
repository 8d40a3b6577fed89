//! `driftless generations build`: a candidate with a changed contract, from the live base's rows.

use std::path::PathBuf;

use serde_json::json;

use super::WordArguments;
use crate::commands::context::{Context, definitions};
use crate::commands::output::{print_json, spinner, tell};
use crate::commands::replay::file_name;
use crate::commands::{CommandError, CommandResult, Format, Verdict};
use crate::config::{ContractText, catalog_of};
use crate::io::control::remove_base;
use crate::io::sqlite::{BaseSettings, Copy, SqliteWriter, copy_base};
use crate::pure::catalog::Catalog;
use crate::pure::generation::{Bound, Control, Generation, Origin, Stage};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The changed contract; may be repeated. Views that none is given for stay as they are.
    #[arg(long = "contract", required = true, value_name = "FILE")]
    contracts: Vec<PathBuf>,
    /// Name of the candidate [default: the next number].
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    word: WordArguments,
}

pub fn run(context: &Context, arguments: &Arguments, format: Format) -> CommandResult {
    // 1. What is to be built, checked before anything is made.
    let (catalog, changed) = changed_catalog(context, &arguments.contracts)?;
    let base = context.settings().base.path.clone();
    let file = context.control_file();
    let entry = file.change(
        || Ok(context.first_control()),
        |control: &mut Control| {
            let name = arguments.name.clone().unwrap_or_else(|| control.next_name());
            if control.get(&name).is_some() {
                return Err(CommandError::usage(
                    format!("there is a generation {name} already"),
                    "give the candidate another name",
                ));
            }
            let entry = Generation {
                file: file_name(&base, &name)?,
                stage: Stage::Building,
                origin: Origin::Contracts { of: control.live.clone(), objects: changed.clone() },
                bound: Bound::default(),
                created: arguments.word.word(context),
                definitions: definitions(&catalog),
                certificate: None,
                rollback_until_ms: None,
                activated: 0,
                name,
            };
            control.generations.push(entry.clone());
            Ok(entry)
        },
    )?;
    // 2. The copy, and the changed views from its rows. It is quick enough to begin anew where it was interrupted.
    let spinner = spinner();
    spinner.set_message(format!("building {} from the live base's rows", changed.join(", ")));
    let path = file.base(&entry.file);
    let result = make(context, &catalog, &entry, path.clone());
    spinner.finish_and_clear();
    file.change(
        || Ok::<Control, CommandError>(context.first_control()),
        |control| {
            match (&result, control.get_mut(&entry.name)) {
                (Ok(()), Some(entry)) => entry.stage = Stage::Ready,
                _ => control.generations.retain(|generation| generation.name != entry.name),
            }
            Ok(())
        },
    )?;
    if let Err(error) = result {
        remove_base(&path)?;
        return Err(error);
    }
    match format {
        Format::Json => print_json(&json!({"generation": entry.name, "file": entry.file, "views": changed})),
        Format::Text => {
            tell!(
                "generation {} is ready: {} built from the live base's rows",
                entry.name,
                changed.join(", ")
            );
            tell!(
                "next: driftless generations diff {} {1}; driftless generations certify {1}; driftless generations activate {1} --dry-run",
                context.generation(),
                entry.name
            );
        }
    }
    Ok(Verdict::Fine)
}

/// The live catalog with the given contracts in place of those of their objects, and these objects.
fn changed_catalog(context: &Context, contracts: &[PathBuf]) -> Result<(Catalog, Vec<String>), CommandError> {
    let mut texts: Vec<ContractText> = context
        .catalog
        .views
        .iter()
        .map(|entry| ContractText { text: entry.view.document.to_string(), place: entry.view.object.clone() })
        .collect();
    let mut changed = Vec::new();
    for path in contracts {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| CommandError::File(place.clone(), error))?;
        let given = ContractText { text, place: place.clone() };
        let compiled = catalog_of(&context.config, std::slice::from_ref(&given))?;
        let view = &compiled.views[0].view;
        let Some(live) = context.catalog.view(&view.object) else {
            return Err(CommandError::usage(
                format!("{place} declares {}, which is no view yet", view.object),
                "a new view needs no new generation: add the file to `contracts` and start driftless run again",
            ));
        };
        if context.catalog.views[live].view.definition_hash == view.definition_hash {
            return Err(CommandError::usage(
                format!("{place} declares {} as the live generation has it", view.object),
                "what is no part of the definition (owner, consumers, lineage) needs no new generation",
            ));
        }
        changed.push(view.object.clone());
        texts[live] = given;
    }
    Ok((catalog_of(&context.config, &texts)?, changed))
}

fn make(context: &Context, catalog: &Catalog, entry: &Generation, path: PathBuf) -> Result<(), CommandError> {
    let copy = Copy { generation: &entry.name, definitions: &entry.definitions, request: None };
    copy_base(&context.base_settings(), &path, &copy)?;
    let settings = BaseSettings { path, generation: entry.name.clone(), ..context.base_settings() };
    // Opening it for writing builds what it does not know.
    SqliteWriter::open(&settings, catalog, rand::random(), context.clock.wall_ms())?;
    Ok(())
}
