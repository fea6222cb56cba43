//! What both sides say before the first message.
//!
//! The client sends `user:password`, one byte of capability, and a NUL. The server answers one byte, the capability
//! both have, or closes without an answer.
//!
//! | capability | adds |
//! |---|---|
//! | 0 | nothing: no compression, no timestamp, timespan or guid |
//! | 1, 2 | compression, timestamp, timespan |
//! | 3 | guid |
//! | 5 | messages over 2 GiB |
//! | 6 | longer vectors |

use core::fmt;

/// Largest capability that is offered or accepted.
pub const CAPABILITY: u8 = 6;

/// Longest login that is waited for, NUL included. Tokens are sent as passwords, and they are long.
pub const MAX_LOGIN_BYTES: usize = 16 * 1024;

/// Bytes below this one are capabilities; from it on, a byte before the NUL belongs to the password.
const FIRST_PRINTABLE: u8 = 0x20;

/// Who a client says it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// What stands before the first colon; may be empty.
    pub user: Vec<u8>,
    /// What stands after the first colon; may be empty.
    pub password: Vec<u8>,
    /// What the client can do; 0 for one that sends no such byte.
    pub capability: u8,
}

impl fmt::Debug for Credentials {
    /// Leaves the password out, so that it never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user.escape_ascii().to_string())
            .field("capability", &self.capability)
            .finish_non_exhaustive()
    }
}

/// Why a login cannot be one.
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
            HandshakeError::TooLong => write!(f, "'access: no end of the login within {MAX_LOGIN_BYTES} bytes"),
            HandshakeError::Http => write!(f, "'access: an HTTP request, this port speaks kdb+ IPC"),
        }
    }
}

impl core::error::Error for HandshakeError {}

/// Server side: the login at the start of `bytes` and its length, or `None` while more is to come. What follows it are
/// messages already.
///
/// # Errors
/// [`HandshakeError`] for bytes that no client sends; close the connection.
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
    Ok(Some((Credentials { user, password, capability }, used)))
}

/// Server side: the byte that accepts a client of that capability.
pub fn answer(capability: u8) -> u8 {
    capability.min(CAPABILITY)
}

/// Client side: what to send first. A name or password is cut at its first NUL, and a name at its first colon, since
/// neither can be told. A client that can do nothing sends no capability: that byte would be the NUL, and the NUL the beginning of
/// a message.
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

/// Client side: the common capability from the server's answer, `None` while there is none. A server that refuses
/// closes the connection instead (`'access`).
pub fn accepted(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied()
}
