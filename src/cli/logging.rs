//! Starts logging to standard error, as the options set it.

use super::CliError;
use crate::config::logging::LogFormat;
use crate::config::{Settings, options};
use std::io;
use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

/// Starts logging with the settings of a program.
///
/// # Errors
/// Those of an invalid setting.
pub fn start(settings: &Settings) -> Result<(), CliError> {
    start_with(settings.get(&options::LOG_FILTER)?, settings.get(&options::LOG_FORMAT)?);
    Ok(())
}

/// Starts logging in a format.
pub fn start_with(filter: Targets, format: LogFormat) {
    let filtered = registry().with(filter);
    let lines = layer().with_ansi(false).with_writer(io::stderr);
    match format {
        LogFormat::Text => install(filtered.with(lines)),
        LogFormat::Json => install(filtered.with(lines.json().flatten_event(true).with_current_span(false))),
    }
}

/// Installs the global subscriber.
fn install(subscriber: impl Subscriber + Send + Sync) {
    // Keeps an existing subscriber: a test process installs one more than once.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
