//! TLS errors in words that say what to do.

use rustls::{AlertDescription, CertificateError, Error};

/// Describes why a handshake or a connection failed.
pub(in crate::net) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => certificate(reason),
        Error::NoCertificatesPresented => {
            "no certificate was sent, and SSL_VERIFY_CLIENT=YES requires one (SSL_CERT_FILE and SSL_KEY_FILE of the client)"
                .to_string()
        }
        Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError => {
                format!("the other side rejects this process's certificate (TLS alert {alert:?})")
            }
            AlertDescription::CertificateRequired => {
                "the other side requires a certificate: set SSL_CERT_FILE and SSL_KEY_FILE".to_string()
            }
            AlertDescription::ProtocolVersion => "no TLS version in common: TLS 1.2 and 1.3 are supported".to_string(),
            _ => format!("the other side ended the connection with the TLS alert {alert:?}"),
        },
        Error::InvalidMessage(_) => format!("bytes that are not TLS: {error}"),
        _ => error.to_string(),
    }
}

fn certificate(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => {
            "the issuer of the certificate is not among the trusted ones (SSL_CA_CERT_FILE)".to_string()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".to_string()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet; is the clock right?".to_string()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host name: connect with a name that is in it".to_string()
        }
        other => format!("the certificate is not accepted: {other:?}"),
    }
}
