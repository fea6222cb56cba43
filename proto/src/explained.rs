//! Text of an error response for a client that requested reasons ([`EXPLAINS`](crate::handshake::EXPLAINS)): kdb+'s name, the reason and the place,
//! with a separator before each of the last two. Every other client receives the name alone.

/// ASCII's unit separator.
const SEPARATOR: u8 = 0x1f;

/// Parts of an error response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explained<'a> {
    /// kdb+'s name of the error, without the quote.
    pub name: &'a [u8],
    /// What was wrong; empty if the name says it all.
    pub reason: &'a [u8],
    /// Lines for a console: the failed text and a caret below the failed operation. Empty if it is not known.
    pub place: &'a [u8],
}

impl<'a> Explained<'a> {
    /// Returns the text of the response. A name is cut at its first NUL, as in every error response; separators and NULs of the other parts
    /// become spaces.
    pub fn encode(&self) -> Vec<u8> {
        let mut out: Vec<u8> = self.name.iter().copied().take_while(|byte| *byte != 0).collect();
        for part in [self.reason, self.place] {
            out.push(SEPARATOR);
            out.extend(part.iter().map(|byte| if matches!(*byte, 0 | SEPARATOR) { b' ' } else { *byte }));
        }
        out
    }

    /// Splits the text of a response. That of a server that gives no reasons is all name.
    pub fn parse(text: &'a [u8]) -> Explained<'a> {
        // From the end: a name may have separators.
        let mut parts = text.rsplitn(3, |byte| *byte == SEPARATOR);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(place), Some(reason), Some(name)) => Explained { name, reason, place },
            _ => Explained { name: text, ..Explained::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_come_back() {
        for name in [&b"type"[..], b"", b"a\x1fb", b"two\nlines"] {
            let sent = Explained { name, reason: b"why: \x1f", place: b"  [0]  1+`\0a\n        ^\n" };
            let received = Explained { name, reason: b"why:  ", place: b"  [0]  1+` a\n        ^\n" };
            assert_eq!(Explained::parse(&sent.encode()), received);
        }
        assert_eq!(Explained { name: b"a\0b", ..Explained::default() }.encode(), b"a\x1f\x1f");
    }

    #[test]
    fn the_text_of_another_server_is_the_name() {
        for text in [&b"type"[..], b"hop. OS reports: Connection refused", b"", b"one\x1fseparator"] {
            assert_eq!(Explained::parse(text), Explained { name: text, ..Explained::default() });
        }
    }
}
