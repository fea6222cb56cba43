//! `.Q.gz`: gzip text and bytes.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use columns::table::Value;
use flate2::Compression;
use std::io::{Read, Write};

/// `.Q.gz`: decompresses gzip text or bytes, compresses `(level;x)`; `.Q.gz[::]` returns whether gzip is supported.
pub(crate) fn gz(context: &mut Context, x: Value) -> Result {
    let like = |bytes: Vec<u8>, of: &Value| match of.as_text() {
        Some(_) => Value::chars(bytes),
        None => columns::table::Items::Byte(bytes.into()).into(),
    };
    if let Value::Null = x {
        return Ok(Value::Bool(true));
    }
    if let (Some(level), 2, false) = (x.at(0).as_long(), x.count(), x.as_text().is_some()) {
        let level = u32::try_from(level).ok().filter(|l| *l <= 9).ok_or(QError::named("domain"))?;
        let of = x.at(1);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::new(level));
        let written = encoder.write_all(crate::verbs::codec::bytes(&of)?);
        let bytes = written.and_then(|()| encoder.finish()).map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        return Ok(like(bytes, &of));
    }
    let given = crate::verbs::codec::bytes(&x)?;
    let mut decoder = flate2::read::GzDecoder::new(given);
    let (mut out, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        context.check()?;
        let read = decoder.read(&mut part).map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        if read == 0 {
            return Ok(like(out, &x));
        }
        if out.capacity() - out.len() < read {
            // The vector doubles.
            context.reserve(out.len().max(read))?;
        }
        out.extend_from_slice(part.get(..read).unwrap_or_default());
    }
}
