//! Errors of the operating system as people read them.

/// The words of the error, `No such file or directory`, without the `(os error 2)` that Rust appends.
pub fn words(error: &std::io::Error) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.find(" (os error") {
        text.truncate(end);
    }
    text
}
