//! `elastick q`: a q console, of this process or of a remote one.

use super::{CliError, command_for, settings_of};
use crate::config::{Address, Program, options};
use crate::net::client::{Client, ClientError};
use crate::q::session::Session;
use crate::q::{Console, Limits, from_owned, show};
use clap::{ArgMatches, Command};
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

/// How long a remote process may take for an answer.
const PATIENCE: Duration = Duration::from_secs(3600);

pub fn command() -> Command {
    command_for(Program::Q)
        .about("Evaluate q: lines from standard input, here or in a remote process")
        .after_help("Reads a line, prints what it gives, an error as 'name. Ends at the end of input or with \\\\.")
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Q, matches)?;
    match settings.find(&options::SERVER)? {
        Some(address) => remote(&address),
        None => local(),
    }
}

/// Hands each line of standard input to `answer` and prints what it says.
fn lines(mut answer: impl FnMut(&[u8]) -> Result<Vec<u8>, CliError>) -> Result<(), CliError> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let prompt = std::io::stdin().is_terminal();
    let mut line = Vec::new();
    loop {
        if prompt {
            output.write_all(b"q)")?;
        }
        output.flush()?;
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = line.trim_ascii_end();
        if text == b"\\\\" {
            return Ok(());
        }
        if text.is_empty() || text.starts_with(b"/") {
            continue;
        }
        output.write_all(&answer(text)?)?;
    }
}

fn local() -> Result<(), CliError> {
    let mut session = Session::console(Vec::new(), None);
    lines(|text| Ok(session.line(text, &Limits::default())))
}

fn remote(address: &Address) -> Result<(), CliError> {
    let mut client =
        Client::connect(address, Duration::from_secs(10), proto::Limits::default()).map_err(CliError::failed)?;
    client.set_timeout(Some(PATIENCE));
    lines(|text| match client.request(&proto::Value::chars(text)) {
        Ok(answer) => match from_owned(&answer) {
            Ok(value) => Ok(show(&value, &Console::default())),
            Err(error) => Ok(format!("{error}\n").into_bytes()),
        },
        Err(ClientError::Server(name)) => Ok([b"'", &name[..], b"\n"].concat()),
        Err(error) if error.is_answer() => Ok(format!("{error}\n").into_bytes()),
        Err(error) => Err(CliError::failed(error)),
    })
}
