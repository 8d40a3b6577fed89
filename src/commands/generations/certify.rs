//! `driftless generations certify`: proof that a generation is fit to be shown.

use std::collections::BTreeMap;

use serde_json::json;

use super::{WordArguments, context_of, find};
use crate::commands::context::Context;
use crate::commands::output::{human, print_json, progress, tell};
use crate::commands::{CommandError, CommandResult, Format, Verdict};
use crate::pipeline::certify::{accounts, prove_view};
use crate::ports::BaseReader;
use crate::pure::generation::{Certificate, Control, Stage, behind};

pub fn run(context: &Context, name: &str, word: &WordArguments, format: Format) -> CommandResult {
    let control = context.control()?;
    if find(&control, name)?.stage == Stage::Building {
        return Err(CommandError::usage(
            format!("generation {name} is still being built"),
            "end its replay first: driftless replay goes on where it stopped",
        ));
    }
    let candidate = context_of(context, &control, name)?;
    let mut reader = candidate.open_reader()?;
    // 1. The file itself.
    let mut faults: Vec<String> = reader.integrity_faults()?;
    // 2. Accounts and every group, in one snapshot.
    let (mut views, bar) = (BTreeMap::new(), progress(0, "groups"));
    let mut snapshot = reader.snapshot()?;
    let head = snapshot.head()?;
    faults.extend(accounts(&candidate.catalog, &head));
    for (view, entry) in candidate.catalog.views.iter().enumerate() {
        match prove_view(&mut *snapshot, &candidate.catalog, view, &mut |groups| bar.inc(groups))? {
            Ok(proof) => {
                views.insert(entry.view.object.clone(), proof);
            }
            Err(fault) => faults.push(fault),
        }
    }
    drop(snapshot);
    bar.finish_and_clear();
    let late = if control.is_live(name) {
        Vec::new()
    } else {
        behind(&head, &context.open_reader()?.snapshot()?.head()?)
    };
    let certificate = Certificate {
        word: word.word(context),
        commit: head.commit.0,
        nonce: head.nonce.clone(),
        watermark: super::list::watermarks(&head),
        views,
    };
    // 3. On record, or off it where it is unfit.
    context.control_file().change(
        || Ok::<Control, CommandError>(context.first_control()),
        |control| {
            if let Some(entry) = control.get_mut(name) {
                entry.certificate = faults.is_empty().then(|| certificate.clone());
            }
            Ok(())
        },
    )?;
    match format {
        Format::Json => print_json(&json!({
            "generation": name, "certified": faults.is_empty(), "faults": faults, "certificate": certificate,
            "behind_live": late,
        })),
        Format::Text if faults.is_empty() => {
            for (object, proof) in &certificate.views {
                tell!(
                    "{object}: {} groups, the same by a scan and by their marks; sha256 {}",
                    human(proof.groups),
                    proof.rows_sha256
                );
            }
            tell!(
                "generation {name} is certified at commit {}, watermark {}",
                head.commit,
                certificate.watermark
            );
            for late in &late {
                tell!("it is behind the live one: {late}");
            }
        }
        Format::Text => {
            tell!("generation {name} is not fit to be shown:");
            for fault in &faults {
                tell!("  {fault}");
            }
        }
    }
    Ok(if faults.is_empty() { Verdict::Fine } else { Verdict::No })
}
