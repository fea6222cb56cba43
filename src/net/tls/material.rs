//! Certificates and keys from PEM files, and the configurations made of them.

use super::certificate::{self, Read};
use super::explain::explain;
use super::settings::TlsSettings;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme, client, version,
};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Where distributions keep the certificates that the system trusts.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

type Chain = Vec<CertificateDer<'static>>;

/// Configuration of a listening port, and the end of its certificate.
pub(super) struct Served {
    pub(super) config: Arc<ServerConfig>,
    pub(super) not_after: SystemTime,
    pub(super) subject: String,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads the files of a listening port.
///
/// # Errors
/// A missing or wrong file, by its variable and path.
pub(super) fn server(settings: &TlsSettings) -> Result<Served, String> {
    let (chain, key) = identity(settings)?.ok_or_else(|| {
        "-E 1 and -E 2 need a certificate and its key, in PEM: set SSL_CERT_FILE (--tls-cert) and SSL_KEY_FILE \
         (--tls-key)"
            .to_string()
    })?;
    let own = chain.first().ok_or_else(|| "SSL_CERT_FILE has no certificate".to_string())?;
    let Read { certificate, not_after, .. } =
        certificate::read(own).map_err(|error| format!("SSL_CERT_FILE: {error}"))?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| explain(&error))?;
    let builder = if settings.verify_client {
        let path = settings.authorities.as_deref().ok_or_else(|| {
            "SSL_VERIFY_CLIENT=YES needs the authorities of the clients' certificates: set SSL_CA_CERT_FILE (--tls-ca)"
                .to_string()
        })?;
        let roots = Arc::new(roots(&authorities(path)?));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        builder.with_client_cert_verifier(verifier.map_err(|error| format!("SSL_CA_CERT_FILE: {error}"))?)
    } else {
        builder.with_no_client_auth()
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| pair(&error))?;
    Ok(Served { config: Arc::new(config), not_after, subject: certificate.subject })
}

/// Reads the files for connections to other processes.
///
/// # Errors
/// A missing or wrong file, by its variable and path.
pub(super) fn client(settings: &TlsSettings) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| explain(&error))?;
    let verifier: Arc<dyn ServerCertVerifier> = match settings.verify_server {
        true => Arc::new(Verifier::new(&trusted(settings)?)?),
        false => Arc::new(Unverified(provider())),
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    match identity(settings)? {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| pair(&error)),
        None => Ok(builder.with_no_client_auth()),
    }
}

fn pair(error: &Error) -> String {
    format!("SSL_CERT_FILE and SSL_KEY_FILE do not fit together: {}", explain(error))
}

/// Returns the own certificate and key; `None` unless both files are set.
fn identity(settings: &TlsSettings) -> Result<Option<(Chain, PrivateKeyDer<'static>)>, String> {
    let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) else { return Ok(None) };
    let chain = certificates("SSL_CERT_FILE", certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("SSL_KEY_FILE, {}: no private key: {}", key.display(), words(&error)))?;
    Ok(Some((chain, key)))
}

fn trusted(settings: &TlsSettings) -> Result<Chain, String> {
    if let Some(path) = &settings.authorities {
        return authorities(path);
    }
    let path = SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.exists()).ok_or_else(|| {
        "the system has no trusted certificates: set SSL_CA_CERT_FILE (--tls-ca) to those of the server's authority"
            .to_string()
    })?;
    authorities(path)
}

fn authorities(path: &Path) -> Result<Chain, String> {
    certificates("SSL_CA_CERT_FILE", path)
}

fn certificates(variable: &str, path: &Path) -> Result<Chain, String> {
    let wrong = |error: rustls::pki_types::pem::Error| {
        format!("{variable}, {}: no certificate: {}", path.display(), words(&error))
    };
    let chain = CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<Chain, _>>().map_err(wrong)?;
    if chain.is_empty() {
        return Err(format!("{variable}, {}: no certificate in PEM (BEGIN CERTIFICATE)", path.display()));
    }
    Ok(chain)
}

fn words(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => {
            "there is none in PEM; an encrypted key is not supported".to_string()
        }
        other => other.to_string(),
    }
}

/// The system's file may have certificates that are not usable; those are skipped.
fn roots(chain: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain.iter().cloned());
    roots
}

/// Verifies servers by their authority. A server whose own certificate is in the file of trusted ones is accepted as well: a self-signed
/// certificate of `openssl req -x509` is marked as an authority's, which the rules of TLS forbid for a server.
#[derive(Debug)]
struct Verifier {
    by_authority: Arc<WebPkiServerVerifier>,
    trusted: Chain,
}

impl Verifier {
    fn new(trusted: &[CertificateDer<'static>]) -> Result<Verifier, String> {
        let by_authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(trusted)), provider())
            .build()
            .map_err(|error| format!("SSL_CA_CERT_FILE: {error}"))?;
        Ok(Verifier { by_authority, trusted: trusted.to_vec() })
    }

    /// Whether a trusted certificate itself is valid for this server now.
    fn is_trusted(&self, own: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<bool, Error> {
        if !self.trusted.iter().any(|trusted| trusted == own) {
            return Ok(false);
        }
        client::verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        let read = certificate::read(own).map_err(Error::General)?;
        match read.is_valid(now.as_secs()) {
            true => Ok(true),
            false => Err(rustls::CertificateError::Expired.into()),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.by_authority.verify_server_cert(own, intermediates, name, status, now) {
            Err(_) if self.is_trusted(own, name, now)? => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Accepts every server that has the key of its certificate: `SSL_VERIFY_SERVER=NO`.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, own, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
