//! `elastick q`: a q console, of this process or of a remote one.

use super::{CliError, command_for, settings_of};
use crate::config::{Address, Program, options};
use crate::net::client::{Client, ClientError};
use crate::q::handles::Peer;
use crate::q::session::Session;
use crate::q::{Console, Limits, QError, from_owned, from_view, show, to_wire};
use crate::table::Value;
use clap::{Arg, ArgMatches, Command};
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

/// How long a remote process may take for an answer.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long a connection may take to come about where nothing else is said.
const CONNECT: Duration = Duration::from_secs(10);

pub fn command() -> Command {
    let arguments = Arg::new("arguments").num_args(0..).index(2).value_name("ARGUMENTS").trailing_var_arg(true);
    command_for(Program::Q)
        .about("Evaluate q: lines from standard input, here or in a remote process")
        .arg(arguments.help("What .z.x holds for a script").allow_hyphen_values(true))
        .after_help("Reads a line, prints what it gives, an error as 'name. Ends at the end of input or with \\\\.")
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Q, matches)?;
    let arguments: Vec<Vec<u8>> =
        matches.get_many::<String>("arguments").into_iter().flatten().map(|a| a.as_bytes().to_vec()).collect();
    let helpers = settings.find(&options::HELPER_THREADS)?.unwrap_or(0);
    let helpers = usize::try_from(helpers).unwrap_or(usize::MAX);
    match settings.find(&options::SERVER)? {
        Some(target) => match target.parse::<Address>() {
            Ok(address) if !std::path::Path::new(&target).exists() => remote(&address),
            _ => with_room(move || local(Some(&target), arguments, helpers)),
        },
        None => with_room(move || local(None, arguments, helpers)),
    }
}

/// Stack of the console's thread: functions of a person's own may recurse further than those of a peer.
const STACK_BYTES: usize = 256 << 20;

fn with_room(run: impl FnOnce() -> Result<(), CliError> + Send + 'static) -> Result<(), CliError> {
    let thread = std::thread::Builder::new().name("console".into()).stack_size(STACK_BYTES);
    let running = thread.spawn(|| {
        crate::sys::stack::allow(STACK_BYTES / 2);
        run()
    })?;
    running.join().map_err(|_| CliError::failed("the console's thread ended unexpectedly"))?
}

/// Hands each line of standard input to `answer` and prints what it says, until that ends with an exit code.
fn lines(mut answer: impl FnMut(&[u8]) -> Result<(Vec<u8>, Option<i32>), CliError>) -> Result<(), CliError> {
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
        let (shown, exit) = answer(text)?;
        output.write_all(&shown)?;
        if let Some(code) = exit {
            output.flush()?;
            std::process::exit(code);
        }
    }
}

fn local(script: Option<&str>, arguments: Vec<Vec<u8>>, helpers: usize) -> Result<(), CliError> {
    let mut session = Session::console(arguments, Some(connect)).with_threads(helpers);
    if let Some(script) = script {
        let shown = session.line(format!("\\l {script}").as_bytes(), &Limits::default());
        std::io::stdout().write_all(&shown)?;
        if let Some(code) = session.exited() {
            std::process::exit(code);
        }
    }
    lines(|text| {
        let shown = session.line(text, &Limits::default());
        Ok((if session.exited().is_some() { Vec::new() } else { shown }, session.exited()))
    })
}

fn remote(address: &Address) -> Result<(), CliError> {
    let mut client = Client::connect(address, CONNECT, proto::Limits::default()).map_err(CliError::failed)?;
    client.set_timeout(Some(PATIENCE));
    lines(|text| {
        let shown = match client.request(&proto::Value::chars(text)) {
            Ok(answer) => match from_owned(&answer) {
                Ok(value) => show(&value, &Console::default()),
                Err(error) => format!("{error}\n").into_bytes(),
            },
            Err(ClientError::Server(name)) => [b"'", &name[..], b"\n"].concat(),
            Err(error) if error.is_answer() => format!("{error}\n").into_bytes(),
            Err(error) => return Err(CliError::failed(error)),
        };
        Ok((shown, None))
    })
}

/// A process that the console's expressions ask through a handle.
struct Remote(Client);

fn failed(error: &ClientError) -> QError {
    match error {
        ClientError::Server(name) => QError::signal(name.clone()),
        other => QError::signal(other.to_string().into_bytes()),
    }
}

fn connect(address: &[u8], timeout_ms: u64) -> Result<Box<dyn Peer>, QError> {
    let text = String::from_utf8_lossy(address);
    let address: Address = text.parse().map_err(|e: String| QError::signal(e.into_bytes()))?;
    let timeout = if timeout_ms == 0 { CONNECT } else { Duration::from_millis(timeout_ms) };
    let mut client =
        Client::connect(&address, timeout, proto::Limits::default()).map_err(|_| QError::with("hop", text.clone()))?;
    client.set_timeout(Some(PATIENCE));
    Ok(Box::new(Remote(client)))
}

impl Peer for Remote {
    fn send(&mut self, message: &Value, wait: bool) -> Result<Value, QError> {
        let kind = if wait { proto::MessageKind::Sync } else { proto::MessageKind::Async };
        let mut bytes = Vec::new();
        let start = proto::encode::begin_message(kind, &mut bytes);
        let mut writer = proto::Writer::new(&mut bytes);
        to_wire(message, &mut writer)?;
        writer.finish().map_err(|e| QError::with("type", e.to_string()))?;
        proto::encode::finish_message(&mut bytes, start).map_err(|e| QError::with("limit", e.to_string()))?;
        if !wait {
            self.0.send_raw(&bytes).and_then(|()| self.0.flush()).map_err(|e| failed(&e))?;
            return Ok(Value::Null);
        }
        let answer = self.0.request_raw(&bytes, |_| {}).map_err(|e| failed(&e))?;
        let limits = proto::Limits::default();
        let view = answer.view(&limits).map_err(|e| failed(&e))?;
        from_view(&view)
    }
}
