//! Locked scripts, `file.q_`: a line with the format's name, then the script, packed with gzip. Only elastick reads them.

use super::{gzip, path, refused, write};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::syntax::prims;
use columns::table::Value;
use std::io::Read;
use std::path::Path;

const HEAD: &[u8] = b"elastick locked script 1\n";

/// Longest script that is unpacked.
const MAX_BYTES: u64 = 64 << 20;

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
    let packed = gzip::gz(context, Value::list(vec![Value::Long(9), Value::chars(text)]))?;
    let target = [name, b"_"].concat();
    let written = path(context, &Value::chars(&target[..]))?;
    write(context, &written, &[HEAD, packed.as_text().unwrap_or_default()].concat())?;
    Ok(Value::Sym(prims::name(&format!(":{}", String::from_utf8_lossy(&target)))))
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
    flate2::read::GzDecoder::new(packed).take(MAX_BYTES + 1).read_to_end(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(std::io::Error::other("the locked script is too long")),
        false => Ok(text),
    }
}
