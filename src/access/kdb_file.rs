//! kdb+'s users file: lines of `user:password`, each password plain, as its MD5 or SHA-1 in hex, or as Argon2.

use super::password::Kept;
use std::collections::HashMap;

/// Parses the lines.
///
/// # Errors
/// A line without a colon or with a hash that cannot be used, by its number.
pub(super) fn parse(text: &[u8]) -> Result<HashMap<Vec<u8>, Kept>, String> {
    let mut passwords = HashMap::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (user, password) = colon
            .and_then(|colon| Some((line.get(..colon)?, line.get(colon.saturating_add(1)..)?)))
            .ok_or_else(|| format!("line {} is not user:password", index.saturating_add(1)))?;
        let kept = Kept::read(password).map_err(|reason| format!("line {}: {reason}", index.saturating_add(1)))?;
        passwords.insert(user.to_vec(), kept);
    }
    Ok(passwords)
}
