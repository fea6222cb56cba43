//! Console that sends its input to another process.

use super::catalog::{self, Catalog};
use super::completion::Known;
use super::help;
use super::input::{Keyboard, Prompt, Typed};
use super::options::QOptions;
use super::output::{Notes, Screen};
use super::signals;
use crate::cli::CliError;
use crate::config::Addresses;
use crate::net::candidates::{Candidates, Terms};
use crate::net::client::{Client, ClientError, Incoming, WriteHalf};
use crate::net::remote::{CONNECT, encoded};
use crate::protocol::check_serving;
use crate::q::host::Host;
use crate::q::session::Session;
use crate::q::{Console, cut_note, from_view, show, shown_error};
use crate::table::Value;
use proto::{Explained, MessageKind};
use rustix::termios::tcgetwinsize;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Widest console, as `\c` sets it.
const MAX_COLUMNS: usize = 2000;

/// The remote process, which may be temporarily unreachable.
struct RemoteConsole {
    candidates: Candidates,
    client: Option<Client>,
    screen: Screen,
    /// Display settings: results are formatted here.
    display: Session,
    /// The size was set by hand, so the window's is ignored.
    sized: bool,
    known: Known,
    /// Whether the process is to be asked its names, before the next prompt; `None` if it refuses or is too busy.
    asks_names: Option<bool>,
}

/// What became of a line.
enum LineEnd {
    Answered,
    /// Ctrl-C stopped it.
    Stopped,
    /// The process is gone.
    Gone,
}

/// Sends each line and prints its result; returns the exit code.
///
/// # Errors
/// The process cannot be reached.
pub fn run(addresses: Addresses, options: &QOptions) -> Result<i32, CliError> {
    let terminal = std::io::stdin().is_terminal();
    signals::watch(|| {})?;
    let screen = Screen::default();
    screen.set_notes(Notes::of(terminal, options.start.quiet));
    let mut display = Session::new();
    display.set_output(Box::new(screen.clone()));
    let known = if terminal { of_language() } else { Known::default() };
    let asks_names = terminal.then_some(true);
    let candidates = Candidates::new(addresses, check_serving);
    let mut remote =
        RemoteConsole { candidates, client: None, screen: screen.clone(), display, sized: false, known, asks_names };
    remote.client = Some(remote.connect().map_err(CliError::failed)?);
    if !std::io::stdout().is_terminal() {
        // A pipe or a file has no width: a script that reads a table must get all its columns.
        remote.resize(None, MAX_COLUMNS);
    }
    for command in &options.commands {
        remote.runs_here(format!("\\{command}").as_bytes());
    }
    let (sender, typed) = channel();
    let keyboard = Keyboard::start(terminal, screen.clone(), move |typed| drop(sender.send(typed)))?;
    let has_prompt = terminal && !options.start.quiet;
    let mut interrupted = false;
    while !screen.is_closed() {
        if terminal && !remote.sized {
            remote.fit_to_window();
        }
        remote.request_names();
        // Another one of several tickerplants may have become active.
        let text = if has_prompt { format!("{}>", remote.candidates) } else { String::new() };
        keyboard.request(Prompt { text, known: remote.known.clone() });
        match typed.recv() {
            Ok(Typed::Text(lines)) => {
                interrupted = false;
                for line in lines {
                    if line.trim_ascii() == b"\\\\" {
                        return Ok(0);
                    }
                    match remote.evaluate(line.trim_ascii_end()) {
                        LineEnd::Gone if !terminal => return Ok(1),
                        // Pasted lines belong together.
                        LineEnd::Stopped if terminal => break,
                        _ => {}
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

/// Names that are the same in every process.
fn of_language() -> Known {
    Known { names: help::names(), explained: help::explained(), ..Known::default() }
}

impl RemoteConsole {
    /// Asks the process for its tables and functions, if that is due.
    fn request_names(&mut self) {
        let Some(client) = self.client.as_mut().filter(|_| self.asks_names == Some(true)) else { return };
        self.asks_names = Some(false);
        let (screen, console) = (&self.screen, self.display.console_now());
        match catalog::request(client, RESPONSE_TIMEOUT, |message| show_message(screen, &console, &message)) {
            Ok(Some(Catalog { tables, functions })) => {
                let of_language = of_language();
                let names = of_language.names.into_iter().chain(functions).collect();
                self.known = Known { names, tables, ..of_language };
            }
            Ok(None) => self.asks_names = None,
            Err(_) => {
                // On the old connection the response would be taken for that of the next line.
                self.asks_names = None;
                self.reconnect();
            }
        }
    }

    /// Names may have changed: they are requested again before the next prompt.
    fn forget_names(&mut self) {
        self.asks_names = self.asks_names.map(|_| true);
    }

    fn connect(&mut self) -> Result<Client, ClientError> {
        let terms = Terms { timeout: CONNECT, limits: proto::Limits::default(), explains: true };
        let mut client = self.candidates.connect(terms)?;
        client.set_timeout(Some(RESPONSE_TIMEOUT));
        Ok(client)
    }

    /// Runs `\help`, `\c` and `\P`, which are about this console. Returns false for any other line.
    fn runs_here(&mut self, line: &[u8]) -> bool {
        if let Some(help) = help::answer(line, self.display.console_now().columns) {
            self.screen.write(&help);
            self.forget_names();
            return true;
        }
        let word = line.split(|c| c.is_ascii_whitespace()).next().unwrap_or_default();
        if !matches!(word, b"\\c" | b"\\P") {
            return false;
        }
        self.sized |= word == b"\\c" && line.trim_ascii() != word;
        if let Err(error) = self.display.line(line) {
            self.screen.write_failure(&error.shown());
        }
        true
    }

    fn fit_to_window(&mut self) {
        let Ok(size) = tcgetwinsize(std::io::stdout()) else { return };
        if size.ws_row > 0 && size.ws_col > 0 {
            self.resize(
                Some(usize::from(size.ws_row).clamp(10, 2000)),
                usize::from(size.ws_col).clamp(10, MAX_COLUMNS),
            );
        }
    }

    /// Sets the columns of the console, and its rows if given.
    fn resize(&mut self, rows: Option<usize>, columns: usize) {
        let mut console = self.display.console_now();
        console.rows = rows.unwrap_or(console.rows);
        console.columns = columns;
        // Cannot fail for a session's own console.
        let _ = self.display.set_console(console);
    }

    /// Sends a line and prints the result.
    fn evaluate(&mut self, line: &[u8]) -> LineEnd {
        if line.is_empty() || line.starts_with(b"/") || self.runs_here(line) {
            return LineEnd::Answered;
        }
        if self.client.is_none() {
            match self.connect() {
                Ok(client) => self.client = Some(client),
                Err(error) => {
                    self.screen.write_failure(format!("{error}\n").as_bytes());
                    return LineEnd::Gone;
                }
            }
        }
        let Some(client) = &mut self.client else { return LineEnd::Gone };
        let Ok(message) = encoded(MessageKind::Sync, &Value::chars(line)) else { return LineEnd::Answered };
        let (screen, console) = (&self.screen, self.display.console_now());
        // Messages that arrive meanwhile are shown at once: there may be any number.
        let mut show = |message| show_message(screen, &console, &message);
        let is_cut = Arc::new(AtomicBool::new(false));
        let (cut, mut half) = (Arc::clone(&is_cut), client.outgoing().ok());
        let end = move || {
            cut.store(true, Ordering::SeqCst);
            half.iter_mut().for_each(WriteHalf::stop_reading);
        };
        match signals::waiting(end, || client.request_raw(&message, &mut show)) {
            // It was too late for Ctrl-C.
            Ok(answer) => {
                if answer.is_error() {
                    // Maybe a name that is gone.
                    self.forget_names();
                }
                show_message(&self.screen, &console, &answer);
            }
            Err(_) if is_cut.load(Ordering::SeqCst) => self.screen.write_failure(b"'stop\n"),
            Err(error) => {
                self.client = None;
                self.screen.write_failure(format!("{error}; the next line reconnects\n").as_bytes());
                return LineEnd::Gone;
            }
        }
        if is_cut.load(Ordering::SeqCst) { self.reconnect() } else { LineEnd::Answered }
    }

    /// Replaces the connection: the process stops what it evaluates for the old one when that closes.
    fn reconnect(&mut self) -> LineEnd {
        // The old one closes last: a user's own globals last as long as one of the user's connections.
        let connected = self.connect().or_else(|_| {
            // The user may have as many connections as allowed.
            self.client = None;
            self.connect()
        });
        match connected {
            Ok(client) => {
                self.client = Some(client);
                LineEnd::Stopped
            }
            Err(error) => {
                self.screen.write_failure(format!("{error}; the next line reconnects\n").as_bytes());
                LineEnd::Gone
            }
        }
    }
}

/// Prints a message, and what of it is not shown.
fn show_message(screen: &Screen, console: &Console, message: &Incoming) {
    let value = match message.view(&proto::Limits::default()) {
        Ok(view) => from_view(&view),
        Err(ClientError::Server(text)) => return screen.write_failure(&shown_error(Explained::parse(&text))),
        Err(error) => return screen.write_failure(format!("{error}\n").as_bytes()),
    };
    match value {
        Ok(value) => {
            screen.write(&show(&value, console));
            if let Some(note) = cut_note(&value, console) {
                screen.remark(note.as_bytes());
            }
        }
        Err(error) => screen.write_failure(format!("{error}\n").as_bytes()),
    }
}
