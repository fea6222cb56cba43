//! User names on their way into a directory's distinguished names.

/// Maximum length of a name.
const MAX_BYTES: usize = 128;

/// Returns the name as it is used everywhere: in lower case, because directories ignore case, and one user must not have several names.
/// `None` for a name that a directory might take for another one, such as one with spaces at its end, or that could be anything but a name.
pub(super) fn folded(user: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(user).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let has_spaces = text.starts_with(' ') || text.ends_with(' ') || text.contains("  ");
    let is_name = !text.is_empty() && text.len() <= MAX_BYTES && text.bytes().all(is_plain) && !has_spaces;
    is_name.then(|| text.to_ascii_lowercase())
}

/// Returns `user` as a value within a distinguished name (RFC 4514).
pub(super) fn escaped(user: &str) -> String {
    let mut escaped = String::with_capacity(user.len());
    for character in user.chars() {
        match character {
            letter if letter.is_ascii_alphanumeric() || "._-@ ".contains(letter) => escaped.push(letter),
            other => other.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escaped.push_str(&format!("\\{byte:02x}"))),
        }
    }
    escaped
}
