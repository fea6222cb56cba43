//! The messages of LDAP that a login needs (RFC 4511). Pure.

use super::ber::{self, BOOLEAN, ENUMERATED, Elements, INTEGER, OCTETS, SEQUENCE, element, integer};
use crate::access::ldap::{Filter, Piece};

pub(super) const BIND_RESPONSE: u8 = 0x61;
pub(super) const SEARCH_ENTRY: u8 = 0x64;
pub(super) const SEARCH_DONE: u8 = 0x65;
/// A place where the search could go on: it is not followed.
pub(super) const SEARCH_REFERENCE: u8 = 0x73;
pub(super) const EXTENDED_RESPONSE: u8 = 0x78;

/// Name of the request for TLS.
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// Result codes.
pub(super) const SUCCESS: u32 = 0;
pub(super) const SIZE_LIMIT_EXCEEDED: u32 = 4;
pub(super) const REFERRAL: u32 = 10;
pub(super) const INVALID_CREDENTIALS: u32 = 49;
pub(super) const UNWILLING_TO_PERFORM: u32 = 53;

/// Encodes a request with its number.
pub(super) fn request(id: u32, operation: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[integer(INTEGER, id).as_slice(), operation].concat())
}

/// A bind with name and password.
pub(super) fn bind(dn: &str, password: &[u8]) -> Vec<u8> {
    let parts = [integer(INTEGER, 3), element(OCTETS, dn.as_bytes()), element(0x80, password)];
    element(0x60, &parts.concat())
}

pub(super) fn start_tls() -> Vec<u8> {
    element(0x77, &element(0x80, START_TLS))
}

pub(super) fn unbind() -> Vec<u8> {
    element(0x42, &[])
}

/// A search below `base`, at all depths, for at most `size` entries, with one of their attributes.
pub(super) fn search(base: &str, size: u32, seconds: u32, filter: &[u8], attribute: &str) -> Vec<u8> {
    let parts = [
        element(OCTETS, base.as_bytes()),
        // The whole subtree; aliases are not followed.
        integer(ENUMERATED, 2),
        integer(ENUMERATED, 0),
        integer(INTEGER, size),
        integer(INTEGER, seconds),
        element(BOOLEAN, &[0]),
        filter.to_vec(),
        element(SEQUENCE, &element(OCTETS, attribute.as_bytes())),
    ];
    element(0x63, &parts.concat())
}

/// Encodes a filter for a user.
pub(super) fn filter(of: &Filter, user: &str, dn: &str) -> Vec<u8> {
    let all = |filters: &[Filter]| filters.iter().flat_map(|one| filter(one, user, dn)).collect::<Vec<u8>>();
    match of {
        Filter::And(filters) => element(0xa0, &all(filters)),
        Filter::Or(filters) => element(0xa1, &all(filters)),
        Filter::Not(one) => element(0xa2, &filter(one, user, dn)),
        Filter::Present(attribute) => element(0x87, attribute.as_bytes()),
        Filter::Equal(attribute, value) => {
            let value = element(OCTETS, &Piece::fill(value, user, dn));
            element(0xa3, &[element(OCTETS, attribute.as_bytes()), value].concat())
        }
        Filter::Matches { attribute, rule, value } => {
            let value = element(0x83, &Piece::fill(value, user, dn));
            let parts = [element(0x81, rule.as_bytes()), element(0x82, attribute.as_bytes()), value];
            element(0xa9, &parts.concat())
        }
    }
}

/// A response: number of its request, kind and contents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response<'a> {
    pub(super) id: u32,
    pub(super) kind: u8,
    pub(super) contents: &'a [u8],
}

impl<'a> Response<'a> {
    /// Parses the contents of a message.
    ///
    /// # Errors
    /// It is malformed.
    pub(super) fn parse(message: &'a [u8]) -> Result<Response<'a>, String> {
        let mut parts = Elements(message);
        let id = ber::number(parts.expect(INTEGER)?)?;
        let (kind, contents) = parts.next()?.ok_or_else(|| "a message without an operation".to_string())?;
        Ok(Response { id, kind, contents })
    }
}

/// How a request ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) code: u32,
    /// The server's words, without control characters.
    pub(super) text: String,
}

impl Outcome {
    /// # Errors
    /// It is malformed.
    pub(super) fn parse(contents: &[u8]) -> Result<Outcome, String> {
        let mut parts = Elements(contents);
        let code = ber::number(parts.expect(ENUMERATED)?)?;
        parts.expect(OCTETS)?;
        let text = String::from_utf8_lossy(parts.expect(OCTETS)?);
        let text = text.chars().filter(|character| !character.is_control()).take(200).collect();
        Ok(Outcome { code, text })
    }
}

/// An entry that a search has found: its name, and the values of the attribute.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) dn: String,
    pub(super) values: Vec<String>,
}

impl Entry {
    /// Parses an entry; values that are not text are left out.
    ///
    /// # Errors
    /// It is malformed.
    pub(super) fn parse(contents: &[u8]) -> Result<Entry, String> {
        let mut parts = Elements(contents);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
        let dn = text(parts.expect(OCTETS)?).map_err(|_| "a name that is not UTF-8".to_string())?;
        let mut attributes = Elements(parts.expect(SEQUENCE)?);
        let mut values = Vec::new();
        while !attributes.0.is_empty() {
            let mut attribute = Elements(attributes.expect(SEQUENCE)?);
            attribute.expect(OCTETS)?;
            let mut set = Elements(attribute.expect(0x31)?);
            while let Some((_, value)) = set.next()? {
                values.extend(text(value));
            }
        }
        Ok(Entry { dn, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..6, Just(SEQUENCE)], 0..64)) {
            drop((Response::parse(&bytes), Outcome::parse(&bytes), Entry::parse(&bytes)));
        }
    }

    #[test]
    fn a_bind_is_that_of_the_rfc() {
        let wanted = [0x30, 0x0e, 2, 1, 1, 0x60, 9, 2, 1, 3, 4, 1, b'a', 0x80, 1, b'p'];
        assert_eq!(request(1, &bind("a", b"p")), wanted);
    }

    #[test]
    fn a_servers_words_have_no_control_characters() {
        let contents = [integer(ENUMERATED, 49), element(OCTETS, b""), element(OCTETS, b"a\r\n\x1b[31mb")].concat();
        assert_eq!(Outcome::parse(&contents), Ok(Outcome { code: 49, text: "a[31mb".to_string() }));
    }
}
