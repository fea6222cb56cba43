//! Local session: evaluates typed lines, timer calls and messages of clients, one at a time.

use super::clients::{Port, ToConsole};
use super::completion::Known;
use super::debug::{DebugAction, Suspended};
use super::help;
use super::input::{Keyboard, Prompt, Typed};
use super::options::QOptions;
use super::output::{Notes, Screen};
use super::peers::{Client, ConnectionEvent, Dialect, HandlersSet};
use super::signals;
use crate::cli::CliError;
use crate::net::inbox::{Inbox, Message, Respond, Turn};
use crate::net::tls::Door;
use crate::net::{message, remote};
use crate::q::handlers::{self, Outcome};
use crate::q::handles::Peer;
use crate::q::host::{Caller, Grants, Host, Setting};
use crate::q::session::Session;
use crate::q::{Limits, QError, Rules, apply, from_view};
use crate::sys::interrupt::Cancel;
use crate::sys::memory::Sources;
use crate::table::{Sym, Value, symbol};
use proto::{Endian, MessageKind, View};
use rustix::termios::tcgetwinsize;
use std::collections::{HashMap, VecDeque};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Input of the console.
pub enum ConsoleEvent {
    Typed(Typed),
    Connection(ConnectionEvent),
}

/// How a session that continues after the end of its input is ended.
const TO_END: &str = "Ctrl-C or SIGTERM ends it, and so does a last line `exit 0`";

/// Maximum depth of nested debuggers.
const MAX_SUSPENDED: usize = 20;

/// The session and its surroundings.
struct Console {
    session: Session,
    screen: Screen,
    events: Receiver<ConsoleEvent>,
    terminal: bool,
    own: Caller,
    /// Next call of `.z.ts`, and its interval in milliseconds.
    tick: Option<(Instant, i64)>,
    /// Console size taken from the window; any other size was set by hand.
    window: Option<[usize; 2]>,
    /// Ctrl-C was pressed on an empty line.
    interrupted: bool,
    /// Open debuggers, newest last.
    suspended: Vec<Suspended>,
    /// Connected clients by handle, with what they speak.
    clients: HashMap<i32, (Caller, Dialect)>,
    trusts_clients: bool,
    /// Senders of deferred responses, by handle, oldest first.
    deferred: HashMap<i32, VecDeque<Respond>>,
    /// The script of the command line failed.
    script_failed: bool,
    /// Lines are in k: `\\` alone switches.
    is_k: bool,
    handlers: Arc<HandlersSet>,
}

/// Runs the session and returns its exit code.
///
/// # Errors
/// Why the session cannot start.
pub fn run(options: &QOptions, door: Option<Arc<Door>>) -> Result<i32, CliError> {
    let (sender, events) = channel();
    let screen = Screen::default();
    let terminal = std::io::stdin().is_terminal();
    screen.set_notes(Notes::of(terminal, options.start.quiet));
    signals::watch()?;
    let to_console = sender.clone();
    let received = move |inbox| drop(to_console.send(ConsoleEvent::Connection(ConnectionEvent::Received(inbox))));
    let connector = remote::connector(Arc::new(received), true);
    let mut session =
        Session::console(options.start.clone(), Some(connector)).with_threads(options.threads.unwrap_or(0));
    session.set_output(Box::new(screen.clone()));
    let own = Caller { user: user(), address: i32::from_be_bytes([127, 0, 0, 1]), ..Caller::default() };
    session.set_caller(own.clone());
    let to_console = sender.clone();
    let to_console: ToConsole = Arc::new(move |event| drop(to_console.send(ConsoleEvent::Connection(event))));
    let handlers = Arc::new(HandlersSet::default());
    session.set_door(Box::new(Port::new(
        to_console,
        options.users.as_ref().map(Into::into),
        options.sites.clone(),
        door,
        Arc::clone(&handlers),
    )));
    let mut console = Console {
        session,
        screen,
        events,
        terminal,
        own,
        tick: None,
        window: None,
        interrupted: false,
        suspended: Vec::new(),
        clients: HashMap::new(),
        trusts_clients: options.trusts_clients,
        deferred: HashMap::new(),
        script_failed: false,
        is_k: false,
        handlers,
    };
    console.prepare(options)?;
    let keyboard =
        Keyboard::start(terminal, console.screen.clone(), move |typed| drop(sender.send(ConsoleEvent::Typed(typed))))?;
    console.run_events(&keyboard);
    Ok(console.end())
}

/// User name of the process.
fn user() -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    let named = std::env::var_os("USER").or_else(|| std::env::var_os("LOGNAME"));
    let number = rustix::process::getuid().as_raw();
    let listed = || user_of(&std::fs::read("/etc/passwd").unwrap_or_default(), number);
    named.map(OsStringExt::into_vec).or_else(listed).unwrap_or_else(|| number.to_string().into_bytes())
}

/// The name of a user number in the text of `/etc/passwd`.
fn user_of(users: &[u8], number: u32) -> Option<Vec<u8>> {
    users.split(|c| *c == b'\n').find_map(|line| {
        let mut fields = line.split(|c| *c == b':');
        let name = fields.next()?;
        (fields.nth(1)? == number.to_string().as_bytes()).then(|| name.to_vec())
    })
}

/// Returns the caller of what a client's connection evaluates.
fn caller(handle: i32, by: Client, remote: bool) -> Caller {
    let grants = Grants { relay: true, ..Grants::default() };
    Caller { handle, user: by.user, address: by.address, tls: by.tls, remote, grants }
}

impl Console {
    fn prepare(&mut self, options: &QOptions) -> Result<(), CliError> {
        self.fit_to_window(options.sized);
        if self.terminal && !options.start.quiet {
            let version = env!("CARGO_PKG_VERSION");
            self.screen.write(
                format!("elastick {version}, q console; \\help explains names, \\\\ or Ctrl-D ends it\n").as_bytes(),
            );
        }
        // The rest is for other processes and for what is not counted.
        let memory = Sources::default().memory().map_or(0, |memory| memory.total_bytes / 5 * 4);
        self.session.set_own_memory(memory);
        if let Some(mb) = options.workspace_mb.and_then(|mb| i64::try_from(mb).ok()) {
            self.session.change(Setting::Workspace, mb.saturating_mul(1 << 20)).map_err(CliError::failed)?;
        }
        let ticking = |command: &&String| command.starts_with("t ");
        for command in options.commands.iter().filter(|c| !ticking(c)) {
            self.session.line(format!("\\{command}").as_bytes()).map_err(CliError::failed)?;
        }
        if let Some(port) = &options.port {
            self.session.listen(port.as_bytes()).map_err(CliError::failed)?;
        }
        if let Some(script) = &options.target {
            self.script_failed = !self.line(format!("\\l {script}").as_bytes());
        }
        for command in options.commands.iter().filter(ticking) {
            self.session.line(format!("\\{command}").as_bytes()).map_err(CliError::failed)?;
        }
        Ok(())
    }

    /// Runs until the session or its input ends.
    fn run_events(&mut self, keyboard: &Keyboard) {
        let (mut is_prompted, mut input_ended, mut is_noted) = (false, false, false);
        while self.session.exited().is_none() && !self.screen.is_closed() {
            if input_ended {
                let Some(kept_by) = self.kept_by() else { break };
                if !is_noted {
                    is_noted = true;
                    let note = format!("(end of input; the session continues for {kept_by}; {TO_END})\n");
                    self.screen.remark(note.as_bytes());
                }
            }
            if !is_prompted && !input_ended {
                keyboard.request(self.prompt());
                is_prompted = true;
            }
            self.note_handlers();
            match self.next() {
                None => self.tick(),
                Some(ConsoleEvent::Typed(typed)) => {
                    is_prompted = false;
                    input_ended = self.typed(typed);
                }
                Some(ConsoleEvent::Connection(event)) => self.connection_event(event),
            }
            self.send_deferred();
        }
    }

    /// What keeps the session running without input, as in kdb+: its port and its connections. `None` without any.
    fn kept_by(&self) -> Option<String> {
        let (port, handles) = (self.session.port(), self.session.open_handles());
        let port = (port != 0).then(|| format!("port {port}"));
        let handles = (!handles.is_empty()).then(|| match &handles[..] {
            [one] => format!("handle {one}"),
            several => format!("{} handles", several.len()),
        });
        match (port, handles) {
            (Some(port), Some(handles)) => Some(format!("{port} and {handles}")),
            (port, handles) => port.or(handles),
        }
    }

    fn note_handlers(&self) {
        self.handlers.note(|handler| handler.of(&self.session).is_some());
    }

    /// Returns the next event; `None` if the timer is due.
    fn next(&mut self) -> Option<ConsoleEvent> {
        let interval_ms = self.session.setting(Setting::Timer);
        if self.tick.map_or(0, |(_, ms)| ms) != interval_ms {
            self.tick = (interval_ms > 0).then(|| (Instant::now(), interval_ms));
        }
        let Some((at, _)) = self.tick else { return self.events.recv().ok() };
        self.events.recv_timeout(at.saturating_duration_since(Instant::now())).ok()
    }

    fn prompt(&self) -> Prompt {
        if !self.terminal || self.session.is_quiet() {
            return Prompt::default();
        }
        let space = String::from_utf8_lossy(symbol::text(self.session.namespace())).into_owned();
        let suspended = ")".repeat(self.suspended.len());
        let known = Known {
            names: self.session.completions(),
            tables: self.session.tables().into_iter().collect(),
            explained: help::explained(),
            has_files: true,
        };
        let text = if self.is_k { "  ".to_string() } else { format!("q{space}){suspended}") };
        Prompt { text, known }
    }

    /// Sets the console size to that of the window, unless it was set by hand.
    fn fit_to_window(&mut self, by_hand: bool) {
        let mut console = self.session.console();
        let number = |name: &str| std::env::var(name).ok()?.parse::<u16>().ok();
        let size = match (number("LINES"), number("COLUMNS")) {
            (Some(rows), Some(columns)) if !self.terminal => Some((rows, columns)),
            _ if self.terminal => tcgetwinsize(std::io::stdout()).ok().map(|size| (size.ws_row, size.ws_col)),
            _ => None,
        };
        let Some((rows, columns)) = size.filter(|(rows, columns)| *rows > 0 && *columns > 0) else { return };
        if by_hand || self.window.is_some_and(|window| window != [console.rows, console.columns]) {
            return;
        }
        console.rows = usize::from(rows).clamp(10, 2000);
        console.columns = usize::from(columns).clamp(10, 2000);
        self.window = Some([console.rows, console.columns]);
        // Cannot fail for the session's own console.
        let _ = self.session.set_console(console);
    }

    /// Evaluates input; returns whether it was the last.
    fn typed(&mut self, typed: Typed) -> bool {
        match typed {
            Typed::Text(texts) => {
                self.interrupted = false;
                self.fit_to_window(self.window.is_none());
                for text in texts {
                    if self.session.exited().is_some() {
                        break;
                    }
                    // Pasted input stops at its first error, because its lines belong together; lines of a pipe are independent.
                    if !self.line(&text) && self.terminal {
                        break;
                    }
                }
            }
            Typed::Interrupted if self.interrupted => drop(self.session.exit(130)),
            Typed::Interrupted => {
                self.interrupted = true;
                self.screen.write(b"(Ctrl-C again ends the session)\n");
            }
            Typed::End if self.terminal => drop(self.session.exit(0)),
            Typed::End => return true,
        }
        false
    }

    /// Evaluates a line and prints the result; returns whether it succeeded.
    fn line(&mut self, text: &[u8]) -> bool {
        let text = text.trim_ascii_end();
        if text.is_empty() || text.starts_with(b"/") {
            return true;
        }
        if let Some(help) = help::answer(text, self.session.console_now().columns) {
            self.screen.write(&help);
            return true;
        }
        let debugs = self.terminal || self.session.setting(Setting::ErrorTrap) == 1;
        self.session.set_debugs(debugs);
        let mut locals = None;
        if let Some(newest) = self.suspended.last_mut() {
            match newest.interpret(text) {
                DebugAction::Print(shown) => self.screen.write(&shown),
                DebugAction::Exit => drop(self.suspended.pop()),
                DebugAction::Evaluate => locals = Some(newest.locals()),
            }
            if locals.is_none() {
                return true;
            }
        }
        if text == b"\\" && locals.is_none() {
            // Without a debugger it leaves one in which a terminal would be: a transcript goes on in q.
            self.is_k = debugs && !self.is_k;
            return true;
        }
        let in_k = if self.is_k && !text.starts_with(b"\\") { [b"k)", text].concat() } else { Vec::new() };
        let text = if in_k.is_empty() { text } else { &in_k[..] };
        let session = &mut self.session;
        let result = signals::evaluating(|| match locals {
            Some(locals) if !text.starts_with(b"\\") => session.line_among(text, &locals),
            _ => session.line(text),
        });
        if debugs
            && let Err(error) = &result
            && self.suspended.len() < MAX_SUSPENDED
            && let Some(suspended) = Suspended::of(error)
        {
            self.suspended.push(suspended);
        }
        self.failed(result)
    }

    /// Prints an error, unless the session is ending.
    fn failed(&self, result: Result<(), QError>) -> bool {
        match result {
            Err(error) if self.session.exited().is_none() => {
                self.screen.write_failure(&error.shown());
                false
            }
            other => other.is_ok(),
        }
    }

    fn handler(&self, name: &str) -> Option<Value> {
        self.session.global(symbol::find(name.as_bytes())?)
    }

    fn tick(&mut self) {
        if let Some((at, ms)) = &mut self.tick {
            *at = Instant::now() + Duration::from_millis(u64::try_from(*ms).unwrap_or(0));
        }
        if let Some(handler) = self.handler(".z.ts") {
            let now = Value::Timestamp(crate::q::now_ns());
            self.call(&handler, now);
        }
    }

    /// Calls a handler whose result is not used.
    fn call(&mut self, handler: &Value, argument: Value) {
        let limits = self.session.limits();
        let session = &mut self.session;
        session.begin();
        let result = signals::evaluating(|| apply(session, handler, &[argument], &limits));
        self.failed(result.map(drop));
    }

    fn connection_event(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Opened { peer, by, dialect } => self.opened(peer, by, dialect),
            ConnectionEvent::Login { user, password, decision } => {
                // The login may have timed out, which rejects it.
                let _ = decision.send(self.authenticate(&user, password));
            }
            ConnectionEvent::Received(inbox) => self.received(&inbox),
            ConnectionEvent::Web { inbox, event, done } => {
                if let Some((caller, _)) = self.clients.get(&inbox.number()).cloned() {
                    let result = self.event(caller, &event, None);
                    self.failed(result.map(drop));
                }
                done();
            }
            ConnectionEvent::Request { handle, by, event, respond, gone } => {
                let remote = !self.trusts_clients && !matches!(event, handlers::HandlerEvent::Authorise(_));
                let caller = caller(handle, by, remote);
                let result = self.event(caller, &event, Some(gone));
                match result {
                    Ok(outcome) => respond(Some(outcome)),
                    Err(error) => {
                        respond(None);
                        self.failed(Err(error));
                    }
                }
            }
        }
    }

    /// Calls the handler of an event on behalf of this caller, until `gone` is set.
    fn event(
        &mut self,
        caller: Caller,
        event: &handlers::HandlerEvent,
        gone: Option<Cancel>,
    ) -> Result<Outcome, QError> {
        let mut limits = self.session.limits();
        (limits.deadline, limits.cancel) = (self.client_deadline(), gone);
        let (session, handle) = (&mut self.session, caller.handle);
        session.set_caller(caller);
        if !self.trusts_clients {
            session.serve_caller();
        }
        let (space, console) = (session.namespace(), session.console_now());
        // Clients' messages are evaluated in the root namespace; their `\c` and `\P` end with the message.
        let _ = session.set_namespace(Sym::NULL);
        let result = signals::evaluating(|| handlers::evaluate(session, &Rules::default(), handle, event, &limits));
        let _ = session.set_namespace(space);
        let _ = session.set_console(console);
        session.set_caller(self.own.clone());
        result
    }

    /// Returns the deadline of an evaluation for a client: `\T`.
    fn client_deadline(&self) -> Option<Instant> {
        let seconds = u64::try_from(self.session.setting(Setting::QueryTime)).unwrap_or(0);
        (seconds > 0).then(|| Instant::now().checked_add(Duration::from_secs(seconds))).flatten()
    }

    /// Evaluates the messages received on a connection, and handles its close.
    fn received(&mut self, inbox: &Inbox) {
        while inbox.number() != 0
            && let Some(Message { kind, body, endian, answer }) = inbox.take()
        {
            let handle = inbox.number();
            let mut limits = self.limits_of(handle);
            if kind == MessageKind::Sync {
                if inbox.gone().is_set() {
                    // It was sent before its client left.
                    answer(proto::encode::error_message(b"stop"), Turn::InOrder);
                    continue;
                }
                limits.cancel = Some(inbox.gone().clone());
            }
            self.session.begin_message(kind == MessageKind::Sync);
            let result = self.request(handle, kind, (&body, endian), &limits);
            let deferred = self.session.has_deferred();
            // Before the response is sent, so that the loop already has any handlers the message set.
            self.note_handlers();
            // A message that deferred its response and then sent it has been answered, even if it failed afterwards.
            if deferred && (result.is_ok() || !self.session.undefer(handle)) {
                self.deferred.entry(handle).or_default().push_back(answer);
            } else if kind == MessageKind::Sync {
                let encoded = |value| limits.within(|| remote::encoded(MessageKind::Response, &value));
                let explains = self.clients.get(&handle).is_some_and(|(_, dialect)| dialect.explains);
                let failure = |error: QError| message::failure(&error, explains, &body, endian).to_vec();
                answer(result.and_then(encoded).unwrap_or_else(failure), Turn::InOrder);
            } else {
                self.failed(result.map(drop));
                answer(Vec::new(), Turn::InOrder);
            }
            self.send_deferred();
        }
        if inbox.is_over() {
            self.closed(inbox);
        }
    }

    /// Sends the deferred responses that are available now.
    fn send_deferred(&mut self) {
        for (handle, result) in self.session.take_answers() {
            let Some(answer) = self.deferred.get_mut(&handle).and_then(VecDeque::pop_front) else { continue };
            let limits = self.session.limits();
            let encoded = match result {
                Ok(value) => limits.within(|| remote::encoded(MessageKind::Response, &value)),
                Err(name) => Ok(proto::encode::error_message(&name)),
            };
            answer(encoded.unwrap_or_else(|error| proto::encode::error_message(&error.name)), Turn::InOrder);
        }
    }

    /// Returns the limits of a message from a connection.
    fn limits_of(&self, handle: i32) -> Limits {
        let mut limits = self.session.limits();
        if self.clients.contains_key(&handle) {
            limits.deadline = self.client_deadline();
        }
        limits
    }

    /// Evaluates a message with `.z.pg` or `.z.ps` if set, else directly.
    fn request(
        &mut self,
        handle: i32,
        kind: MessageKind,
        (body, endian): (&[u8], Endian),
        limits: &Limits,
    ) -> Result<Value, QError> {
        let (view, _) =
            View::parse(body, endian, &proto::Limits::default()).map_err(|e| QError::with(e.term(), e.to_string()))?;
        let message = limits.within(|| from_view(&view))?;
        let handler = self.handler(if kind == MessageKind::Sync { ".z.pg" } else { ".z.ps" });
        let session = &mut self.session;
        let caller = self.clients.get(&handle).map(|(caller, _)| caller.clone());
        session.set_caller(caller.unwrap_or(Caller { handle, ..Caller::default() }));
        let (space, console) = (session.namespace(), session.console_now());
        // Clients' messages are evaluated in the root namespace; their `\c` and `\P` end with the message.
        let _ = session.set_namespace(Sym::NULL);
        let result = signals::evaluating(|| match &handler {
            Some(handler) => apply(session, handler, &[message], limits),
            None => crate::q::eval_message(session, &message, limits),
        });
        let _ = session.set_namespace(space);
        let _ = session.set_console(console);
        session.set_caller(self.own.clone());
        result
    }

    fn opened(&mut self, peer: Box<dyn Peer>, by: Client, dialect: Dialect) {
        // A connection beyond the limit is closed on drop.
        let Ok(handle) = self.session.adopt(peer) else { return };
        let caller = caller(handle, by, !self.trusts_clients);
        self.clients.insert(handle, (caller.clone(), dialect));
        self.session.note_caller(handle, Some(caller.clone()));
        let opened = handlers::HandlerEvent::Opened { web: dialect.web };
        let result = self.event(Caller { remote: false, ..caller }, &opened, None);
        self.failed(result.map(drop));
    }

    /// Returns the decision of `.z.pw`.
    fn authenticate(&mut self, user: &[u8], password: Vec<u8>) -> bool {
        let Some(handler) = self.handler(".z.pw") else { return true };
        let Ok(user) = symbol::intern(user) else { return false };
        let limits = self.session.limits();
        let session = &mut self.session;
        session.begin();
        let arguments = [Value::Sym(user), Value::chars(password)];
        if !self.trusts_clients {
            session.serve_caller();
        }
        let result = signals::evaluating(|| apply(session, &handler, &arguments, &limits));
        let is_accepted = matches!(result, Ok(Value::Bool(true)));
        self.failed(result.map(drop));
        is_accepted
    }

    fn closed(&mut self, inbox: &Inbox) {
        let handle = inbox.set_number(0);
        if handle == 0 {
            return;
        }
        self.session.forget(handle);
        self.session.forget_deferred(handle);
        self.session.note_caller(handle, None);
        self.deferred.remove(&handle);
        let is_web = self.clients.remove(&handle).is_some_and(|(_, dialect)| dialect.web);
        let handler = if is_web { ".z.wc" } else { ".z.pc" };
        if let Some(handler) = self.handler(handler) {
            self.call(&handler, Value::Int(handle));
        }
    }

    /// Returns the exit code, after a call of `.z.exit` with it.
    fn end(&mut self) -> i32 {
        // As in kdb+, the session continues after a failed script; without a terminal the exit code reports the failure.
        let failed = self.script_failed && !self.terminal;
        let code = self.session.take_exit().unwrap_or(i32::from(failed));
        if let Some(handler) = self.handler(".z.exit") {
            let limits = self.session.limits();
            let session = &mut self.session;
            let result = signals::evaluating(|| apply(session, &handler, &[Value::Long(i64::from(code))], &limits));
            self.failed(result.map(drop));
        }
        // `.z.exit` may have called `exit` with another code.
        self.session.exited().unwrap_or(code)
    }
}
