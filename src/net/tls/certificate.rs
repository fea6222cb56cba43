//! What a certificate says: its names, and how long it is valid.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_cert::der::{Decode, Tag, Tagged, oid::ObjectIdentifier};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Names in a verified certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The subject, in the form `CN=feed1,O=Example`.
    pub subject: String,
    /// The subject's common name.
    pub common_name: Option<String>,
    /// Subject alternative names: host names, e-mail addresses, URIs.
    pub alternative_names: Vec<String>,
}

impl Certificate {
    /// Returns the names by which a user may be found: alternative names, then the common name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.alternative_names.iter().chain(&self.common_name).map(String::as_str)
    }
}

/// Names and validity of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) certificate: Certificate,
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
}

impl Read {
    /// Whether it is valid at a time, in seconds from 1970.
    pub(super) fn is_valid(&self, seconds: u64) -> bool {
        let now = at(Duration::from_secs(seconds));
        self.not_before <= now && now <= self.not_after
    }
}

fn at(since_1970: Duration) -> SystemTime {
    UNIX_EPOCH.checked_add(since_1970).unwrap_or(UNIX_EPOCH)
}

/// Reads a certificate (DER).
///
/// # Errors
/// If it is none.
pub(super) fn read(der: &[u8]) -> Result<Read, String> {
    let parsed = x509_cert::Certificate::from_der(der).map_err(|error| format!("not a certificate: {error}"))?;
    let body = &parsed.tbs_certificate;
    let common_name = body.subject.0.iter().flat_map(|part| part.0.iter()).find_map(|attribute| {
        let is_text = matches!(attribute.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
        let text = std::str::from_utf8(attribute.value.value()).ok()?;
        (attribute.oid == COMMON_NAME && is_text).then(|| text.to_string())
    });
    let alternative = body.get::<SubjectAltName>().map_err(|error| format!("subject alternative names: {error}"))?;
    let alternative_names = alternative.into_iter().flat_map(|(_, names)| names.0).filter_map(|name| match name {
        GeneralName::DnsName(text) | GeneralName::UniformResourceIdentifier(text) | GeneralName::Rfc822Name(text) => {
            Some(text.to_string())
        }
        _ => None,
    });
    let certificate =
        Certificate { subject: body.subject.to_string(), common_name, alternative_names: alternative_names.collect() };
    Ok(Read {
        certificate,
        not_before: at(body.validity.not_before.to_unix_duration()),
        not_after: at(body.validity.not_after.to_unix_duration()),
    })
}
