//! What the tests of this crate share: the recorded bytes, and a second encoder.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;

/// The folder of recorded bytes, or `None` with the reason printed.
pub fn golden(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/kdb/golden").join(name);
    if path.exists() {
        Some(path)
    } else {
        eprintln!("skipped: {} is missing", path.display());
        None
    }
}

/// The records of a file of JSON lines; none if it is missing.
pub fn json_lines(name: &str) -> Vec<Json> {
    let Some(path) = golden(name) else { return Vec::new() };
    let text = fs::read_to_string(path).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hexadecimal") as u8;
    text.trim().as_bytes().as_chunks::<2>().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn text<'a>(record: &'a Json, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_default()
}
