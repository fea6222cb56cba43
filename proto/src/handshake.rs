//! Login: the bytes exchanged before the first message.
//!
//! The client sends `user:password`, one capability byte, and a NUL. The server replies with one byte, the common
//! capability, or closes the connection without a reply.
//!
//! | capability | adds |
//! |---|---|
//! | 0 | nothing: no compression, no timestamp, timespan or guid |
//! | 1, 2 | compression, timestamp, timespan |
//! | 3 | guid |
//! | 5 | messages over 2 GiB |
//! | 6 | longer vectors |

use core::fmt;

/// Highest capability that is offered or accepted.
pub const CAPABILITY: u8 = 6;

/// Bit of the capability byte with which a console requests error responses with a reason ([`Explained`](crate::Explained)). kdb+ takes the lower
/// of both sides' capabilities and so ignores it.
pub const EXPLAINS: u8 = 0x10;

/// Maximum length of a login, NUL included. Large, because access tokens are sent as passwords.
pub const MAX_LOGIN_BYTES: usize = 16 * 1024;

/// Lower bytes are capabilities; from this one on, the byte before the NUL belongs to the password.
const FIRST_PRINTABLE: u8 = 0x20;

/// Login of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Text before the first colon; may be empty.
    pub user: Vec<u8>,
    /// Text after the first colon; may be empty.
    pub password: Vec<u8>,
    /// Capability of the client; 0 if it sends none.
    pub capability: u8,
    /// Whether its error responses give a reason.
    pub explains: bool,
}

impl fmt::Debug for Credentials {
    /// Omits the password, so that it never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user.escape_ascii().to_string())
            .field("capability", &self.capability)
            .finish_non_exhaustive()
    }
}

/// Reason why a login is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// No NUL within [`MAX_LOGIN_BYTES`].
    TooLong,
    /// An HTTP request: a browser on the port.
    Http,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::TooLong => write!(f, "'access: no end of the handshake within {MAX_LOGIN_BYTES} bytes"),
            HandshakeError::Http => write!(f, "'access: an HTTP request; this port expects kdb+ IPC"),
        }
    }
}

impl core::error::Error for HandshakeError {}

/// Server side: parses the login at the start of `bytes`. Returns it with its length, or `None` if more bytes are
/// needed. Messages follow directly.
///
/// # Errors
/// [`HandshakeError`] for bytes that are not a login; close the connection.
pub fn parse(bytes: &[u8]) -> Result<Option<(Credentials, usize)>, HandshakeError> {
    const METHODS: [&[u8]; 7] = [b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH "];
    if METHODS.iter().any(|method| bytes.starts_with(method)) {
        return Err(HandshakeError::Http);
    }
    let window = bytes.get(..MAX_LOGIN_BYTES).unwrap_or(bytes);
    let Some((login, _)) = window.iter().position(|byte| *byte == 0).and_then(|end| window.split_at_checked(end))
    else {
        return if bytes.len() >= MAX_LOGIN_BYTES { Err(HandshakeError::TooLong) } else { Ok(None) };
    };
    let used = login.len().saturating_add(1);
    let (text, capability) = match login.split_last() {
        Some((&byte, text)) if byte < FIRST_PRINTABLE => (text, byte),
        _ => (login, 0),
    };
    let mut parts = text.splitn(2, |byte| *byte == b':');
    let user = parts.next().unwrap_or_default().to_vec();
    let password = parts.next().unwrap_or_default().to_vec();
    let (capability, explains) = (capability & !EXPLAINS, capability & EXPLAINS != 0);
    Ok(Some((Credentials { user, password, capability, explains }, used)))
}

/// Server side: returns the byte that accepts a client of this capability.
pub fn answer(capability: u8) -> u8 {
    capability.min(CAPABILITY)
}

/// Client side: returns the login to send. A name or password is cut at its first NUL, and a name at its first colon, because the
/// format cannot carry them. Capability 0 sends no capability byte: it would read as the NUL that ends the login, and the
/// NUL after it as the start of a message.
pub fn hello(user: &[u8], password: &[u8], capability: u8) -> Vec<u8> {
    let upto = |text: &[u8], ends: &[u8]| -> Vec<u8> {
        text.iter().copied().take_while(|byte| !ends.contains(byte)).collect()
    };
    let mut out = upto(user, b":\0");
    out.push(b':');
    out.extend(upto(password, b"\0"));
    out.extend(Some(capability).filter(|capability| *capability != 0));
    out.push(0);
    out
}

/// Client side: returns the common capability from the server's reply, `None` before the reply. A server that rejects
/// the login closes the connection instead (`'access`).
pub fn accepted(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied()
}
