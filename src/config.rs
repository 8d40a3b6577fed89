//! Every setting with unit, default and limit; read once, checked once. Precedence: default < file <
//! environment < argument. Knows no server.

mod catalog;
mod formats;
mod layers;
mod route;
mod settings;
mod topic;

use std::path::{Path, PathBuf};

pub use catalog::{ContractText, catalog_of, contract_texts, load_catalog, load_tables, load_topics};
pub use layers::{Overrides, environment};
pub use route::RouteSection;
pub use settings::{BaseSection, KafkaSection, Maintain, RedisSection, Settings, Synchronous};
pub use topic::WatermarkMode;

/// A mistake in the configuration: file, place, and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}\n  remedy: {remedy}")]
pub struct ConfigError {
    /// The file, variable or argument, with the setting's path where there is one.
    pub place: String,
    pub message: String,
    pub remedy: String,
}

impl ConfigError {
    pub fn new(place: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        ConfigError { place: place.into(), message: message.into(), remedy: remedy.into() }
    }
}

/// Where the configuration is looked for when no file is named.
pub const DEFAULT_FILES: [&str; 2] = ["driftless.toml", "config/driftless.toml"];

/// A configuration as loaded: settings, and the folder that its relative paths start from.
#[derive(Clone, Debug)]
pub struct Config {
    pub settings: Settings,
    /// Named in messages.
    pub file: PathBuf,
    /// Contracts are relative to it.
    pub folder: PathBuf,
}

impl Config {
    /// Loads the file named, or the first default one that exists.
    pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
        let file = match file {
            Some(file) => file.to_owned(),
            None => Self::default_file().ok_or_else(|| {
                ConfigError::new(
                    DEFAULT_FILES.join(" or "),
                    "no configuration here",
                    "name one with --config FILE or DRIFTLESS_CONFIG",
                )
            })?,
        };
        let text = std::fs::read_to_string(&file).map_err(|error| {
            ConfigError::new(
                file.display().to_string(),
                error.to_string(),
                "name an existing file with --config",
            )
        })?;
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        Self::parse(&text, file, folder, overrides)
    }

    /// The first default file that exists.
    pub fn default_file() -> Option<PathBuf> {
        DEFAULT_FILES.iter().map(PathBuf::from).find(|file| file.exists())
    }

    /// As [`load`](Config::load), from text.
    pub fn parse(
        text: &str,
        file: PathBuf,
        folder: PathBuf,
        overrides: &Overrides,
    ) -> Result<Config, ConfigError> {
        let settings = layers::merge(text, &file.display().to_string(), overrides)?;
        settings.check(&|path| overrides.place_of(path, &file.display().to_string()))?;
        Ok(Config { settings, file, folder })
    }
}
