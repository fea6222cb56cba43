//! Errors of connections that q opened, by their kdb+ names.

use super::client::ClientError;
use super::inbox::End;
use crate::q::QError;
use crate::sys::interrupt;
use std::io;

/// The q error of a failed `hopen`.
pub(super) fn refused(error: ClientError) -> QError {
    match error {
        ClientError::Refused(_) => QError::named("access"),
        ClientError::Connect { error, .. } if error.kind() == io::ErrorKind::TimedOut => {
            QError::reported("timeout", &error)
        }
        ClientError::Connect { error, .. } | ClientError::Io(error) => QError::reported("hop", &error),
        ClientError::Timeout => QError::named("timeout"),
        other => QError::with("hop", other.to_string()),
    }
}

/// The q error of a message of which a part may not have been sent, so that its connection is closed.
pub(super) fn unsent(error: &ClientError) -> QError {
    match error {
        ClientError::Timeout if interrupt::is_asked() => QError::named("stop"),
        ClientError::Timeout => {
            QError::with("stop", "the other process did not read in time: the connection is closed")
        }
        _ => QError::named("close"),
    }
}

/// The q error of a receive that ended.
///
/// # Errors
/// Always.
pub fn ended<T>(end: End) -> Result<T, QError> {
    Err(match end {
        End::Closed => QError::named("close"),
        End::Malformed(name) => QError::named(name),
        End::Stopped => QError::with("stop", "time limit"),
    })
}
