//! Settings of TLS: kdb+'s `-E` and its `SSL_*` variables.

use crate::config::{ConfigError, Settings, TlsMode, options};
use std::path::PathBuf;

/// Certificates of this process, and which ones of other processes it verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    pub mode: TlsMode,
    /// PEM: the own certificate, then the intermediate ones.
    pub certificate: Option<PathBuf>,
    /// PEM: its private key.
    pub key: Option<PathBuf>,
    /// PEM: trusted certificates; without it those of the system, for servers only.
    pub authorities: Option<PathBuf>,
    /// Clients must send a certificate of a trusted authority.
    pub verify_client: bool,
    /// Servers must have a certificate of a trusted authority, for the host name connected to.
    pub verify_server: bool,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings {
            mode: TlsMode::Off,
            certificate: None,
            key: None,
            authorities: None,
            verify_client: false,
            verify_server: true,
        }
    }
}

impl TlsSettings {
    /// Returns the settings of a program; what it has no option for keeps its default.
    ///
    /// # Errors
    /// A value that is not valid.
    pub fn resolve(settings: &Settings) -> Result<TlsSettings, ConfigError> {
        let path = |option| Ok(settings.find(option)?.filter(|text: &String| !text.is_empty()).map(PathBuf::from));
        let default = TlsSettings::default();
        Ok(TlsSettings {
            mode: settings.find(&options::TLS)?.unwrap_or_default(),
            certificate: path(&options::TLS_CERT)?,
            key: path(&options::TLS_KEY)?,
            authorities: path(&options::TLS_CA)?,
            verify_client: settings.find(&options::TLS_VERIFY_CLIENT)?.unwrap_or(default.verify_client),
            verify_server: settings.find(&options::TLS_VERIFY_SERVER)?.unwrap_or(default.verify_server),
        })
    }

    /// Returns the files that a change of the certificates replaces.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key, &self.authorities].into_iter().flatten()
    }
}
