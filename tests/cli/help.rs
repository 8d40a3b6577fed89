//! Help, and the exit codes of wrong usage.

use crate::place;

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_command_at_every_depth_has_help_with_an_example() {
    let installation = place::installation();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = Vec::new();
    while let Some(path) = open.pop() {
        let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        arguments.push("--help");
        let answer = installation.run(&arguments).expect(0).says(&["Example: "]);
        open.extend(listed(&answer.out).into_iter().map(|name| [path.clone(), vec![name]].concat()));
        seen.push(path.join(" "));
    }
    for known in
        ["run", "status", "seed", "produce", "checksum", "dlq waive", "contract hash", "view usage", "query"]
    {
        assert!(seen.iter().any(|path| path == known), "{known} is not in {seen:?}");
    }
}

#[test]
fn wrong_usage_is_trouble_and_touches_nothing() {
    let installation = place::installation();
    let before = installation.files();
    for arguments in [
        &["walk"][..],
        &[],
        &["run", "--twice"],
        &["checksum"],
        &["checksum", "--from", "paper"],
        &["run", "--every", "0"],
        &["dlq", "waive", "1"],
        &["dlq", "waive", "--why", "x"],
        &["dlq", "waive", "--table", "fact_sales", "--seq", "9-3", "--why", "x"],
        &["dlq", "waive", "--table", "fact_sales", "--seq", "many", "--why", "x"],
        &["checksum", "--from", "base", "--view", "nothing"],
        &["checksum", "--from", "base", "--columns", "units,nothing"],
        &["produce", "events.jsonl", "--topic", "nothing"],
    ] {
        installation.run(arguments).expect(2);
        assert_eq!(installation.files(), before, "{arguments:?}");
    }
}

#[test]
fn version_is_told() {
    place::installation().run(&["--version"]).expect(0).says(&[env!("CARGO_PKG_VERSION")]);
}
