//! Console that sends its input to another process.

use super::input::{Keyboard, Prompt, Typed};
use super::options::Started;
use super::output::Screen;
use super::signals;
use crate::cli::CliError;
use crate::config::Address;
use crate::net::client::{Client, ClientError, Incoming};
use crate::net::remote::{CONNECT, encoded};
use crate::q::{Console, from_view, show};
use crate::table::Value;
use proto::MessageKind;
use rustix::termios::tcgetwinsize;
use std::io::IsTerminal;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Timeout of a response.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The remote process, which may be temporarily unreachable.
struct Far<'a> {
    address: &'a Address,
    client: Option<Client>,
    screen: Screen,
    console: Console,
}

/// Sends each line and prints its result; returns the exit code.
///
/// # Errors
/// The process cannot be reached.
pub fn run(address: &Address, started: &Started) -> Result<i32, CliError> {
    let terminal = std::io::stdin().is_terminal();
    signals::watch()?;
    let screen = Screen::default();
    let mut far = Far { address, client: None, screen: screen.clone(), console: Console::default() };
    far.client = Some(far.connect().map_err(CliError::failed)?);
    for command in &started.commands {
        far.size(command);
    }
    let (tell, typed) = channel();
    let keyboard = Keyboard::start(terminal, screen.clone(), move |typed| drop(tell.send(typed)))?;
    let text = if terminal && !started.start.quiet { format!("{address}>") } else { String::new() };
    let mut interrupted = false;
    while !screen.is_closed() {
        if terminal && !started.sized {
            far.fit();
        }
        keyboard.ask(Prompt { text: text.clone(), names: Vec::new() });
        match typed.recv() {
            Ok(Typed::Text(lines)) => {
                interrupted = false;
                for line in lines {
                    if line.trim_ascii() == b"\\\\" {
                        return Ok(0);
                    }
                    if !far.ask(line.trim_ascii_end()) && !terminal {
                        return Ok(1);
                    }
                }
            }
            Ok(Typed::Interrupted) if !interrupted => {
                interrupted = true;
                screen.write(b"(Ctrl-C again ends the console)\n");
            }
            Ok(Typed::Interrupted) => return Ok(130),
            Ok(Typed::End) | Err(_) => return Ok(0),
        }
    }
    Ok(0)
}

impl Far<'_> {
    fn connect(&self) -> Result<Client, ClientError> {
        let mut client = Client::connect(self.address, CONNECT, proto::Limits::default())?;
        client.set_timeout(Some(PATIENCE));
        Ok(client)
    }

    /// Applies `c` and `P` of the command line to this console, not to the remote process.
    fn size(&mut self, command: &str) {
        let mut words = command.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<usize> = words.filter_map(|w| w.parse().ok()).collect();
        match (word, &numbers[..]) {
            ("c", [rows, columns]) => {
                (self.console.rows, self.console.columns) = ((*rows).clamp(10, 2000), (*columns).clamp(10, 2000));
            }
            ("P", [digits]) => self.console.precision = u8::try_from((*digits).min(17)).unwrap_or(7),
            _ => {}
        }
    }

    fn fit(&mut self) {
        if let Ok(size) = tcgetwinsize(std::io::stdout())
            && size.ws_row > 0
            && size.ws_col > 0
        {
            self.console.rows = usize::from(size.ws_row).clamp(10, 2000);
            self.console.columns = usize::from(size.ws_col).clamp(10, 2000);
        }
    }

    /// Sends a line and prints the result; false if the process is gone.
    fn ask(&mut self, line: &[u8]) -> bool {
        if line.is_empty() || line.starts_with(b"/") {
            return true;
        }
        if self.client.is_none() {
            match self.connect() {
                Ok(client) => self.client = Some(client),
                Err(error) => {
                    self.screen.write(format!("{error}\n").as_bytes());
                    return false;
                }
            }
        }
        let Some(client) = &mut self.client else { return false };
        let Ok(message) = encoded(MessageKind::Sync, &Value::chars(line)) else { return true };
        let mut told = Vec::new();
        let answer = client.request_raw(&message, |other| told.push(other));
        for other in told {
            self.screen.write(&shown(&other, &self.console));
        }
        match answer {
            Ok(answer) => self.screen.write(&shown(&answer, &self.console)),
            Err(error) => {
                self.client = None;
                self.screen.write(format!("{error}; the next line reconnects\n").as_bytes());
                return false;
            }
        }
        true
    }
}

/// Formats a message for the console.
fn shown(message: &Incoming, console: &Console) -> Vec<u8> {
    match message.view(&proto::Limits::default()) {
        Ok(view) => match from_view(&view) {
            Ok(value) => show(&value, console),
            Err(error) => format!("{error}\n").into_bytes(),
        },
        Err(ClientError::Server(name)) => [b"'", &name[..], b"\n"].concat(),
        Err(error) => format!("{error}\n").into_bytes(),
    }
}
