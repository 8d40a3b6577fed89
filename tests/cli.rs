//! The built program from the command line, without a Kafka: help, exit codes, mistakes told before anything is
//! touched, secrets that are never printed, seeds, contracts, and files that are refused.

#[path = "cli/bases.rs"]
mod bases;
#[path = "cli/configuration.rs"]
mod configuration;
#[path = "cli/contracts.rs"]
mod contracts;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/inspect.rs"]
mod inspect;
#[path = "support/installation.rs"]
mod installation;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/place.rs"]
mod place;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "cli/router.rs"]
mod router;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/seeds.rs"]
mod seeds;
