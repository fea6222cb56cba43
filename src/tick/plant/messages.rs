//! Messages to nodes, in their wire form: the one place where the tickerplant sends them.

use crate::points::{self, Boundary};
use crate::protocol::{Joined, ToNode};
use bytes::Bytes;
use proto::EncodeError;

/// Encodes a message. Its names come from a schema or a join and are valid; if encoding fails nevertheless, this is logged and nothing is
/// sent.
pub(super) fn encoded(message: &ToNode) -> Bytes {
    points::message(Boundary::TickSends, message.name());
    message.encode().unwrap_or_else(|error| {
        tracing::error!(message = message.name(), %error, "cannot encode the message; it is not sent");
        Bytes::new()
    })
}

/// Encodes the response to a join.
///
/// # Errors
/// A name that cannot be serialised.
pub(super) fn encoded_joined(joined: &Joined) -> Result<Bytes, EncodeError> {
    points::message(Boundary::TickSends, joined.name());
    joined.encode()
}
