//! The encoding of LDAP messages (BER, as far as RFC 4511 uses it): a tag, a length, contents.

/// Maximum bytes of a length: 4 encode every length that fits the limit of an answer.
const MAX_LENGTH_BYTES: usize = 4;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const SEQUENCE: u8 = 0x30;

/// Encodes an element.
pub(super) fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut element = vec![tag];
    match u8::try_from(contents.len()) {
        Ok(short) if short < 0x80 => element.push(short),
        _ => {
            let length = contents.len().to_be_bytes();
            let digits: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
            // The number of digits is at most 8.
            element.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
            element.extend(digits);
        }
    }
    element.extend_from_slice(contents);
    element
}

/// Encodes a whole number that is not negative.
pub(super) fn integer(tag: u8, number: u32) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let mut digits: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    // The first bit is the sign.
    if digits.first().is_none_or(|first| *first >= 0x80) {
        digits.insert(0, 0);
    }
    element(tag, &digits)
}

/// What the bytes at the beginning of a buffer are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    Element {
        tag: u8,
        contents: &'a [u8],
        rest: &'a [u8],
    },
    /// More bytes are needed; how many in all, once that is known.
    Incomplete(Option<usize>),
}

/// Parses the element at the beginning of `bytes`.
///
/// # Errors
/// A tag or a length that LDAP does not use.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed<'_>, String> {
    let Some((&tag, after)) = bytes.split_first() else { return Ok(Parsed::Incomplete(None)) };
    if tag & 0x1f == 0x1f {
        return Err("a tag of several bytes".to_string());
    }
    let Some((&first, after)) = after.split_first() else { return Ok(Parsed::Incomplete(None)) };
    let (length, after) = match usize::from(first) {
        short @ 0..=0x7f => (short, after),
        long => {
            let count = long & 0x7f;
            if count == 0 || count > MAX_LENGTH_BYTES {
                return Err("a length that is not supported".to_string());
            }
            let Some((digits, after)) = after.split_at_checked(count) else { return Ok(Parsed::Incomplete(None)) };
            (digits.iter().fold(0_usize, |length, digit| (length << 8) | usize::from(*digit)), after)
        }
    };
    match after.split_at_checked(length) {
        Some((contents, rest)) => Ok(Parsed::Element { tag, contents, rest }),
        None => {
            let head = bytes.len().saturating_sub(after.len());
            Ok(Parsed::Incomplete(Some(head.saturating_add(length))))
        }
    }
}

/// Reads the elements of a complete sequence, one after the other.
pub(super) struct Elements<'a>(pub(super) &'a [u8]);

impl<'a> Elements<'a> {
    /// Returns tag and contents of the next element; `None` at the end.
    ///
    /// # Errors
    /// The bytes are no element.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        match parse(self.0)? {
            Parsed::Element { tag, contents, rest } => {
                self.0 = rest;
                Ok(Some((tag, contents)))
            }
            Parsed::Incomplete(_) => Err("an element that is longer than its sequence".to_string()),
        }
    }

    /// Returns the contents of the next element, which must have this tag.
    ///
    /// # Errors
    /// It has another tag, or there is none.
    pub(super) fn expect(&mut self, tag: u8) -> Result<&'a [u8], String> {
        match self.next()? {
            Some((found, contents)) if found == tag => Ok(contents),
            _ => Err(format!("no element with the tag {tag:#04x}")),
        }
    }
}

/// Returns a whole number that is not negative.
///
/// # Errors
/// It is longer than 4 bytes, or negative.
pub(super) fn number(contents: &[u8]) -> Result<u32, String> {
    let digits: &[u8] = contents.strip_prefix(&[0]).unwrap_or(contents);
    let is_number = !contents.is_empty() && digits.len() <= 4 && contents.first().is_some_and(|first| *first < 0x80);
    match is_number {
        true => Ok(digits.iter().fold(0, |number, digit| (number << 8) | u32::from(*digit))),
        false => Err("a number that is not supported".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_encoded_is_parsed(tag in 0_u8..0x1f, contents in prop::collection::vec(any::<u8>(), 0..70_000), more in any::<[u8; 3]>()) {
            let mut bytes = element(tag, &contents);
            let length = bytes.len();
            prop_assert_ne!(parse(&bytes[..length - 1]), Ok(Parsed::Element { tag, contents: &contents, rest: &[] }));
            bytes.extend(more);
            prop_assert_eq!(parse(&bytes), Ok(Parsed::Element { tag, contents: &contents, rest: &more }));
        }

        #[test]
        fn numbers_come_back(value in 0_u32..0x7fff_ffff) {
            let bytes = integer(INTEGER, value);
            let mut elements = Elements(&bytes);
            prop_assert_eq!(number(elements.expect(INTEGER).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut elements = Elements(&bytes);
            while let Ok(Some((_, contents))) = elements.next() {
                drop(number(contents));
            }
        }
    }

    /// Active Directory writes all lengths with four bytes.
    #[test]
    fn lengths_may_be_longer_than_necessary() {
        let bytes = [SEQUENCE, 0x84, 0, 0, 0, 1, 7];
        assert_eq!(parse(&bytes), Ok(Parsed::Element { tag: SEQUENCE, contents: &[7], rest: &[] }));
        assert_eq!(parse(&bytes[..6]), Ok(Parsed::Incomplete(Some(7))));
        assert!(parse(&[SEQUENCE, 0x85, 0, 0, 0, 0, 1]).is_err() && parse(&[SEQUENCE, 0x80]).is_err());
    }
}
