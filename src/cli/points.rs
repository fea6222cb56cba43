//! `elastick points`: lists the failpoints at which a test can stop a process. Only with the feature `points`.

use crate::points;
use clap::Command;
use std::io::{self, Write};

pub const NAME: &str = "points";

pub fn command() -> Command {
    Command::new(NAME)
        .about("List the failpoints that ELASTICK_POINT=\"NAME[ NTH[ kill|pause]]\" arms, and the program of each")
}

/// Prints program and name of every failpoint.
///
/// # Errors
/// Those of standard output.
pub fn run() -> io::Result<()> {
    let mut out = io::stdout();
    for (program, name) in points::all() {
        writeln!(out, "{program} {name}")?;
    }
    out.flush()
}
