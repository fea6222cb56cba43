//! From a client's message to the object of its answer.

use super::pool::Allowance;
use crate::config::Limit;
use crate::metrics;
use crate::q::error::QError;
use crate::q::host::Host;
use crate::q::{Limits, eval_message, from_view, to_wire};
use proto::{DecodeError, Endian, View, Writer};

/// Nesting and size of a message were limited where it came in; its structure is checked here.
fn limits() -> proto::Limits {
    proto::Limits { max_message_bytes: u64::MAX, max_decompressed_bytes: u64::MAX, ..proto::Limits::default() }
}

/// Evaluates a message as kdb+'s `.z.pg` and `.z.ps` do by default, and encodes the result.
///
/// # Errors
/// By kdb+'s names: of the message (`badmsg`, `limit`), of the evaluation, or of a result that cannot travel.
pub fn evaluate(host: &mut dyn Host, body: &[u8], endian: Endian, allowance: Allowance) -> Result<Vec<u8>, QError> {
    let bad = |error: DecodeError| {
        metrics::refused_by(&error, Limit::message_bytes);
        QError::with(error.term(), error.to_string())
    };
    let (view, _) = View::parse(body, endian, &limits()).map_err(bad)?;
    let message = from_view(&view)?;
    let query_limits =
        Limits { deadline: allowance.deadline, memory_bytes: allowance.memory_bytes, ..Limits::default() };
    let result = eval_message(host, &message, &query_limits)?;
    let mut object = Vec::new();
    let mut writer = Writer::new(&mut object);
    to_wire(&result, &mut writer)?;
    writer.finish().map_err(|error| QError::with("limit", error.to_string()))?;
    Ok(object)
}
