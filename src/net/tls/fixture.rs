//! Certificates of an authority made for a test run, in files.

use super::process::install;
use super::settings::TlsSettings;
use crate::config::TlsMode;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub(in crate::net) struct Files {
    pub(in crate::net) authority: PathBuf,
    /// A process with both roles: certificate and key.
    pub(in crate::net) own: (PathBuf, PathBuf),
    /// The authority's key, for nobody's certificate.
    pub(in crate::net) other_key: PathBuf,
}

/// Made once per test process; connections to other processes use them as well.
pub(in crate::net) static FILES: LazyLock<Files> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("elastick-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let files = made_in(&directory);
    install(TlsSettings { authorities: Some(files.authority.clone()), ..TlsSettings::default() });
    files
});

fn made_in(directory: &Path) -> Files {
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let mut own = CertificateParams::new(["localhost".to_string(), "tick.example".to_string()]).unwrap();
    own.distinguished_name.push(DnType::CommonName, "tick1");
    let signed = own.signed_by(&key, &Issuer::from_params(&authority, &authority_key)).unwrap();
    Files {
        authority: write("ca.pem", authority.self_signed(&authority_key).unwrap().pem()),
        own: (write("own.pem", signed.pem()), write("own.key", key.serialize_pem())),
        other_key: write("ca.key", authority_key.serialize_pem()),
    }
}

/// Settings of a port with the certificate for `localhost`.
pub(in crate::net) fn settings(mode: TlsMode) -> TlsSettings {
    TlsSettings {
        mode,
        certificate: Some(FILES.own.0.clone()),
        key: Some(FILES.own.1.clone()),
        authorities: Some(FILES.authority.clone()),
        ..TlsSettings::default()
    }
}
