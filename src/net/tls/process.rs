//! The process's settings and certificates.

use super::material::{self, Served};
use super::settings::TlsSettings;
use crate::config::TlsMode;
use crate::config::watch::watch as watch_files;
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Remaining validity of a certificate below which a start warns.
const SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// How often the files are compared with those last read.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Process {
    settings: TlsSettings,
    /// Made when the first connection needs it.
    client: Option<Arc<ClientConfig>>,
    door: Option<Arc<Door>>,
}

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

fn process() -> MutexGuard<'static, Option<Process>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the settings of this process. Connections that are open keep what they were opened with.
pub fn install(settings: TlsSettings) {
    *process() = Some(Process { settings, ..Process::default() });
}

/// Returns the configuration for connections to other processes.
///
/// # Errors
/// A missing or wrong file.
pub(super) fn client_config() -> Result<Arc<ClientConfig>, String> {
    let mut guard = process();
    let process = guard.get_or_insert_default();
    if let Some(config) = &process.client {
        return Ok(Arc::clone(config));
    }
    let config = Arc::new(material::client(&process.settings)?);
    process.client = Some(Arc::clone(&config));
    Ok(config)
}

/// Returns the configuration for a connection to an identity service.
///
/// # Errors
/// A missing or wrong file.
pub(super) fn service_config(authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let own = process().get_or_insert_default().settings.authorities.clone();
    let authorities = authorities.map(Path::to_path_buf).or(own);
    material::client(&TlsSettings { authorities, ..TlsSettings::default() })
}

/// Returns the settings as kdb+'s `(-26!)[]` shows them.
pub fn shown() -> Vec<(&'static str, String)> {
    let settings = process().get_or_insert_default().settings.clone();
    let path = |path: Option<std::path::PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
    let yes = |is: bool| if is { "YES" } else { "NO" }.to_string();
    vec![
        ("SSLEAY_VERSION", "rustls 0.23".to_string()),
        ("SSL_CERT_FILE", path(settings.certificate)),
        ("SSL_CA_CERT_FILE", path(settings.authorities)),
        ("SSL_KEY_FILE", path(settings.key)),
        ("SSL_VERIFY_CLIENT", yes(settings.verify_client)),
        ("SSL_VERIFY_SERVER", yes(settings.verify_server)),
    ]
}

/// TLS of the listening port: what new connections get.
pub struct Door {
    mode: TlsMode,
    served: Mutex<Served>,
}

impl Door {
    /// Reads the files of the installed settings, and again at each `reload`; `None` with `-E 0`.
    ///
    /// # Errors
    /// A missing or wrong file, by its variable and path.
    pub fn open() -> Result<Option<Arc<Door>>, String> {
        let mut guard = process();
        let process = guard.get_or_insert_default();
        if process.settings.mode == TlsMode::Off {
            return Ok(None);
        }
        let door = Arc::new(Door::of(&process.settings)?);
        process.door = Some(Arc::clone(&door));
        Ok(Some(door))
    }

    /// Reads the files of a listening port.
    ///
    /// # Errors
    /// A missing or wrong file, by its variable and path.
    pub fn of(settings: &TlsSettings) -> Result<Door, String> {
        let served = material::server(settings)?;
        warn_of_end(&served);
        Ok(Door { mode: settings.mode, served: Mutex::new(served) })
    }

    /// Whether plain TCP connections are rejected.
    pub fn is_tls_only(&self) -> bool {
        self.mode == TlsMode::Only
    }

    /// Returns the configuration of the next connection.
    pub(in crate::net) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.served().config)
    }

    /// Seconds until the certificate ends; negative after that.
    pub(in crate::net) fn seconds_left(&self) -> f64 {
        let not_after = self.served().not_after;
        match not_after.duration_since(SystemTime::now()) {
            Ok(left) => left.as_secs_f64(),
            Err(past) => -past.duration().as_secs_f64(),
        }
    }

    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that calls `reload` when a file of the installed settings changes, and on SIGHUP.
///
/// # Errors
/// The operating system's.
pub fn watch() -> io::Result<()> {
    let changed = || {
        if let Err(error) = reload() {
            tracing::warn!("the certificates stay as they were: {error}");
        }
        ControlFlow::Continue(())
    };
    watch_files("tls-files", WATCH_INTERVAL, files, changed)
}

/// Reads all files again. New connections get what they hold now; if one is wrong, everything stays as it was.
///
/// # Errors
/// A missing or wrong file.
fn reload() -> Result<(), String> {
    let settings = process().get_or_insert_default().settings.clone();
    let served = match settings.mode {
        TlsMode::Off => None,
        _ => Some(material::server(&settings)?),
    };
    let mut guard = process();
    let process = guard.get_or_insert_default();
    if process.client.is_some() {
        process.client = Some(Arc::new(material::client(&settings)?));
    }
    if let (Some(served), Some(door)) = (served, &process.door) {
        warn_of_end(&served);
        tracing::info!(subject = served.subject, "new connections get the certificate read now");
        *door.served() = served;
    }
    Ok(())
}

/// Returns the files that `reload` reads.
fn files() -> Vec<std::path::PathBuf> {
    process().get_or_insert_default().settings.files().cloned().collect()
}

fn warn_of_end(served: &Served) {
    let subject = &served.subject;
    match served.not_after.duration_since(SystemTime::now()) {
        Err(_) => tracing::warn!(subject, "the certificate (SSL_CERT_FILE) has expired: clients will reject it"),
        Ok(left) if left < SOON => {
            let days = left.as_secs().div_ceil(24 * 3600);
            tracing::warn!(subject, "the certificate (SSL_CERT_FILE) expires within {days} days");
        }
        Ok(_) => {}
    }
}
