//! From settings to the catalog: tables, topics and the compiled contracts.

use std::path::PathBuf;
use std::sync::Arc;

use super::settings::TableSection;
use super::topic::{StartSetting, TopicSection, WatermarkMode};
use super::{Config, ConfigError, formats};
use crate::pure::catalog::{BaseTable, Catalog, CatalogView, Start, Topic};
use crate::pure::contract::View;
use crate::pure::recompute::Recompute;
use crate::pure::schema::{Column, ColumnType, Table};
use crate::pure::watermark::Mode;

/// A contract document and the name that messages give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractText {
    pub text: String,
    pub place: String,
}

/// The contract documents that the configuration names.
pub fn contract_texts(config: &Config) -> Result<Vec<ContractText>, ConfigError> {
    let file = config.file.display().to_string();
    let read = |path: PathBuf| {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            ConfigError::new(&place, error.to_string(), format!("correct `contracts` in {file}"))
        })?;
        Ok(ContractText { text, place })
    };
    contract_files(config, &file)?.into_iter().map(read).collect()
}

/// Compiles what the configuration declares. The first mistake is the one told.
pub fn load_catalog(config: &Config) -> Result<Catalog, ConfigError> {
    catalog_of(config, &contract_texts(config)?)
}

/// As [`load_catalog`], with these contracts in place of the files that the configuration names.
pub fn catalog_of(config: &Config, contracts: &[ContractText]) -> Result<Catalog, ConfigError> {
    let file = config.file.display().to_string();
    let (mut catalog, shapes) = tables_and_topics(config, &file)?;
    for ContractText { text, place } in contracts {
        add_view(&mut catalog, &shapes, text, place)?;
    }
    if catalog.views.is_empty() {
        return Err(ConfigError::new(
            format!("{file}: contracts"),
            "no contract is named",
            "list at least one contract file",
        ));
    }
    Ok(catalog)
}

/// The tables and topics alone, for looking at messages before there is a view of them.
pub fn load_topics(config: &Config) -> Result<Catalog, ConfigError> {
    tables_and_topics(config, &config.file.display().to_string()).map(|(catalog, _)| catalog)
}

fn tables_and_topics(config: &Config, file: &str) -> Result<(Catalog, Vec<Table>), ConfigError> {
    let mut catalog = Catalog::default();
    let shapes = tables(config, file)?;
    for shape in &shapes {
        let mode = mode_of(config, file, &shape.name)?;
        catalog.tables.push(BaseTable { shape: Arc::new(shape.clone()), mode });
    }
    for section in &config.settings.topics {
        let topic = topic(&catalog, section, file)?;
        catalog.topics.push(topic);
    }
    Ok((catalog, shapes))
}

/// Compiles one contract and adds its view.
pub fn add_view(catalog: &mut Catalog, shapes: &[Table], text: &str, place: &str) -> Result<(), ConfigError> {
    let view = View::compile(text, place, shapes).map_err(|error| {
        let at = if error.path.is_empty() { error.place } else { format!("{}: {}", error.place, error.path) };
        ConfigError::new(at, error.message, "docs/CONTRACTS.md says what a contract may hold")
    })?;
    if catalog.view(&view.object).is_some() {
        return Err(ConfigError::new(
            place,
            format!("another contract declares the object {} too", view.object),
            "give each view an object name of its own",
        ));
    }
    let table = catalog.table(&view.base).ok_or_else(|| {
        ConfigError::new(place, format!("base {} is no configured table", view.base), "configure the table")
    })?;
    let recompute = Recompute::new(&view, &catalog.tables[table].shape);
    catalog.views.push(CatalogView { view, table, recompute });
    Ok(())
}

/// The tables alone, for looking at a contract that may not be fit to be loaded.
pub fn load_tables(config: &Config) -> Result<Vec<Table>, ConfigError> {
    tables(config, &config.file.display().to_string())
}

fn tables(config: &Config, file: &str) -> Result<Vec<Table>, ConfigError> {
    let mut tables: Vec<Table> = Vec::new();
    for section in &config.settings.tables {
        let place = format!("{file}: table {}", section.name);
        check_name(&section.name, &place)?;
        if tables.iter().any(|table| table.name.eq_ignore_ascii_case(&section.name)) {
            return Err(ConfigError::new(
                place,
                "the name occurs twice",
                "give each table a name of its own",
            ));
        }
        tables.push(table(section, &place)?);
    }
    if tables.is_empty() {
        return Err(ConfigError::new(file, "no table is configured", "add a [[table]] section"));
    }
    Ok(tables)
}

fn table(section: &TableSection, place: &str) -> Result<Table, ConfigError> {
    let mut columns: Vec<Column> = Vec::new();
    for (name, kind) in &section.columns {
        let at = format!("{place}: columns.{name}");
        check_name(name, &at)?;
        if columns.iter().any(|column| column.name.eq_ignore_ascii_case(name)) {
            return Err(ConfigError::new(
                at,
                "the name occurs twice",
                "SQL does not tell upper from lower case",
            ));
        }
        let kind = kind.as_str().unwrap_or_default();
        let (kind, nullable) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
        let column_type = match kind {
            "text" => ColumnType::Text,
            "integer" => ColumnType::Integer,
            "date" => ColumnType::Date,
            other => {
                return Err(ConfigError::new(
                    at,
                    format!("type {other:?} is not known"),
                    "write \"text\", \"integer\" or \"date\", with ? behind it where null is allowed",
                ));
            }
        };
        columns.push(Column { name: name.as_str().into(), column_type, nullable });
    }
    let mut key = Vec::new();
    for name in &section.primary_key {
        let at = format!("{place}: primary_key");
        let column = columns.iter().position(|column| *column.name == **name).ok_or_else(|| {
            ConfigError::new(&at, format!("{name} is no column"), "name columns of the table")
        })?;
        if columns[column].nullable || key.contains(&column) {
            return Err(ConfigError::new(
                at,
                format!("{name} allows null, or occurs twice"),
                "name each column once, and only columns that are never null",
            ));
        }
        key.push(column);
    }
    if key.is_empty() {
        return Err(ConfigError::new(
            format!("{place}: primary_key"),
            "it is empty",
            "name the columns that tell one row from another: changes cannot be applied without them",
        ));
    }
    Ok(Table { name: section.name.as_str().into(), columns, key })
}

/// Names become SQL identifiers beside driftless's own.
fn check_name(name: &str, place: &str) -> Result<(), ConfigError> {
    let lower = name.to_ascii_lowercase();
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let reserved = ["driftless_", "sqlite_", "_"].iter().any(|prefix| lower.starts_with(prefix));
    if !name.is_empty() && name.len() <= 64 && plain && !reserved {
        return Ok(());
    }
    Err(ConfigError::new(
        place,
        format!("{name:?} cannot be a name here"),
        "use letters, digits and _, at most 64, not beginning with _, driftless_ or sqlite_",
    ))
}

/// Topics that feed one table share one sequence space, so one mode.
fn mode_of(config: &Config, file: &str, table: &str) -> Result<Mode, ConfigError> {
    let mut found: Option<(&TopicSection, Mode)> = None;
    for section in config.settings.topics.iter().filter(|section| section.table == table) {
        let mode = mode(section, file)?;
        match found {
            Some((first, other)) if other != mode => {
                return Err(ConfigError::new(
                    format!("{file}: topic {}", section.name),
                    format!(
                        "its watermark differs from that of topic {}, which feeds table {table} too",
                        first.name
                    ),
                    "topics of one table share one sequence space: give them the same watermark settings",
                ));
            }
            _ => found = Some((section, mode)),
        }
    }
    found.map(|(_, mode)| mode).ok_or_else(|| {
        ConfigError::new(
            format!("{file}: table {table}"),
            "no topic feeds it",
            "add a [[topic]] section with this table",
        )
    })
}

fn mode(section: &TopicSection, file: &str) -> Result<Mode, ConfigError> {
    let place = |setting: &str| format!("{file}: topic {}: {setting}", section.name);
    if section.first_seq.is_some() && section.watermark != WatermarkMode::Dense {
        return Err(ConfigError::new(place("first_seq"), "only mode dense has one", "leave it out"));
    }
    if section.shared_seq && section.watermark != WatermarkMode::Sparse {
        return Err(ConfigError::new(place("shared_seq"), "only mode sparse has it", "leave it out"));
    }
    Ok(match section.watermark {
        WatermarkMode::Dense => match section.first_seq.unwrap_or(1) {
            first if (1..=i64::MAX as u64).contains(&first) => Mode::Dense { first },
            first => {
                return Err(ConfigError::new(
                    place("first_seq"),
                    format!("{first} is not allowed"),
                    "give a number from 1 to 2^63 - 1",
                ));
            }
        },
        WatermarkMode::Sparse => Mode::Sparse { shared: section.shared_seq },
        WatermarkMode::AppendOrdered => Mode::AppendOrdered,
        WatermarkMode::Offsets => Mode::Offsets,
    })
}

fn topic(catalog: &Catalog, section: &TopicSection, file: &str) -> Result<Topic, ConfigError> {
    let place = format!("{file}: topic {}", section.name);
    let plain = section.name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if section.name.is_empty() || section.name.len() > 249 || !plain {
        return Err(ConfigError::new(
            place,
            "Kafka allows no such topic name",
            "use letters, digits, . _ -, at most 249",
        ));
    }
    if catalog.topic(&section.name).is_some() {
        return Err(ConfigError::new(place, "the topic occurs twice", "configure each topic once"));
    }
    let table = catalog.table(&section.table).ok_or_else(|| {
        ConfigError::new(
            &place,
            format!("table {} is not configured", section.table),
            "name a configured table",
        )
    })?;
    let BaseTable { shape, mode } = &catalog.tables[table];
    let decoder = formats::decoder(section, shape, BaseTable::order(*mode), &place)?;
    let start = match section.start {
        StartSetting::Complete => Start::Complete,
        StartSetting::LogStart => Start::LogStart,
    };
    Ok(Topic { name: section.name.as_str().into(), table, start, decoder })
}

/// The contract files, in the order named; a pattern's files sorted by name.
fn contract_files(config: &Config, file: &str) -> Result<Vec<PathBuf>, ConfigError> {
    let mut files = Vec::new();
    for pattern in &config.settings.contracts {
        let path = config.folder.join(pattern);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((before, after)) = name.split_once('*') else {
            files.push(path);
            continue;
        };
        // A bare name has the empty path as its parent, which cannot be listed.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.map_or_else(|| PathBuf::from("."), PathBuf::from);
        let place = || format!("{file}: contracts: {pattern}");
        let entries = std::fs::read_dir(&folder).map_err(|error| {
            ConfigError::new(place(), format!("{}: {error}", folder.display()), "name an existing folder")
        })?;
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            })
            .collect();
        if found.is_empty() {
            return Err(ConfigError::new(place(), "no file matches", "correct the pattern"));
        }
        found.sort();
        files.append(&mut found);
    }
    Ok(files)
}
