//! TLS of a process: reads its certificates at the start and keeps them current.

use super::CliError;
use crate::config::Settings;
use crate::net::tls::{self, Door, TlsSettings};
use std::sync::Arc;

/// Installs the settings, and reads the files of the listening port. Returns `None` with `-E 0`, or for a program without a port.
pub(super) fn start(settings: &Settings, connects_with_tls: bool) -> Result<Option<Arc<Door>>, CliError> {
    start_with(TlsSettings::resolve(settings)?, connects_with_tls)
}

/// As [`start`], with settings of which a program's own command line has changed something.
pub(super) fn start_with(settings: TlsSettings, connects_with_tls: bool) -> Result<Option<Arc<Door>>, CliError> {
    tls::install(settings);
    let door = Door::open().map_err(CliError::Failed)?;
    if door.is_some() || connects_with_tls {
        tls::watch()?;
    }
    Ok(door)
}
