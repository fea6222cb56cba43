//! `elastick passwd`: hashes a password for a users file.

use super::{CliError, command_for};
use crate::access::hashed;
use crate::config::Program;
use clap::{ArgMatches, Command};
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::io::{self, BufRead, Write};

/// Longest password that is read.
const MAX_BYTES: usize = 1 << 10;

pub fn command() -> Command {
    command_for(Program::Passwd).about("Hash a password with Argon2, for a users file (-u, -U)").after_help(
        "Examples:\n  elastick passwd                 prompts twice, without showing what is typed\n  elastick passwd < file          \
         the first line of the file\n\nThe line printed is the value of `password` in a users file in TOML, or follows `user:` in kdb+'s \
         file. It has its own random salt: the same password gives another line each time.",
    )
}

pub fn run(_: &ArgMatches) -> Result<(), CliError> {
    let password = match isatty(io::stdin()) {
        true => typed()?,
        false => line()?,
    };
    if password.is_empty() {
        return Err(CliError::Failed("the password is empty".to_string()));
    }
    let hash = hashed(password.as_bytes()).map_err(CliError::Failed)?;
    writeln!(io::stdout(), "{hash}")?;
    Ok(())
}

fn line() -> Result<String, CliError> {
    let mut text = String::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    io::Read::take(io::stdin().lock(), limit.saturating_add(1)).read_line(&mut text)?;
    if text.len() > MAX_BYTES {
        return Err(CliError::Failed(format!("the password is longer than {MAX_BYTES} bytes")));
    }
    Ok(text.trim_end_matches(['\n', '\r']).to_string())
}

/// Restores the terminal's settings when dropped.
struct Hidden(Termios);

impl Hidden {
    fn new() -> io::Result<Hidden> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Without it the shell would show nothing that is typed; there is no other place to report that.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

fn typed() -> Result<String, CliError> {
    let prompt_for = |prompt: &str| -> Result<String, CliError> {
        write!(io::stderr(), "{prompt}: ")?;
        let hidden = Hidden::new()?;
        let password = line()?;
        drop(hidden);
        writeln!(io::stderr())?;
        Ok(password)
    };
    let (first, second) = (prompt_for("password")?, prompt_for("again")?);
    match first == second {
        true => Ok(first),
        false => Err(CliError::Failed("the two passwords differ".to_string())),
    }
}
