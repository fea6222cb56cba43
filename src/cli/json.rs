//! Documents that tools print with `--json`: one line each.

use serde::Serialize;
use std::io::{self, Write};

/// Prints a document on one line.
///
/// # Errors
/// The writer's.
pub fn print(out: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    out.write_all(b"\n")
}
