//! Locked scripts, `file.q_`: a line with the format's name, then the script, packed with gzip. Only elastick reads them.

use super::{path, refused, write};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::{Result, symbol};
use columns::table::Value;
use std::io::{Read, Write};
use std::path::Path;

const HEAD: &[u8] = b"elastick locked script 1\n";

/// Longest script.
const MAX_BYTES: u64 = 4 << 20;

/// `\_ file.q`: writes `file.q_`, whose functions are shown as `locked` once it is loaded. Returns the path.
///
/// # Errors
/// `domain` unless the name ends in `.q`; the operating system's errors.
pub(crate) fn lock(context: &mut Context, name: &[u8]) -> Result {
    let script = path(context, &Value::chars(name))?;
    if script.extension().is_none_or(|extension| extension != "q") {
        return Err(QError::with("domain", "a locked script is made of a script whose name ends in .q"));
    }
    let text = std::fs::read(&script).map_err(|error| refused(&script, &error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(QError::with("limit", format!("a locked script has at most {MAX_BYTES} bytes")));
    }
    let mut packed = flate2::write::GzEncoder::new(HEAD.to_vec(), flate2::Compression::best());
    let packed = packed.write_all(&text).and_then(|()| packed.finish()).map_err(|error| refused(&script, &error))?;
    let target = [name, b"_"].concat();
    let written = path(context, &Value::chars(&target[..]))?;
    write(context, &written, &packed)?;
    Ok(Value::Sym(symbol(&[b":", &target[..]].concat())?))
}

/// The text of a script file: of a locked one what was packed.
///
/// # Errors
/// The file is damaged, or longer than [`MAX_BYTES`].
pub(crate) fn unpacked(path: &Path, bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let Some(packed) = bytes.strip_prefix(HEAD).filter(|_| path.extension().is_some_and(|e| e == "q_")) else {
        return Ok(bytes);
    };
    let mut text = Vec::new();
    let mut decoder = flate2::bufread::GzDecoder::new(packed).take(MAX_BYTES + 1);
    decoder.read_to_end(&mut text)?;
    match (text.len() as u64 > MAX_BYTES, decoder.into_inner().into_inner().is_empty()) {
        (true, _) => Err(std::io::Error::other("the locked script is too long")),
        (_, false) => Err(std::io::Error::other("something follows the locked script")),
        _ => Ok(text),
    }
}
