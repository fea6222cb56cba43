//! Local session: evaluates typed lines, timer calls and messages of clients, one at a time.

use super::admitted::Admitted;
use super::clients::{Port, ToConsole};
use super::completion::Known;
use super::debug::{DebugAction, Suspended};
use super::help;
use super::input::{Keyboard, Prompt, Typed};
use super::options::QOptions;
use super::output::{Notes, Screen};
use super::peers::{ConnectionEvent, Dialect, HandlersSet};
use super::signals;
use crate::access::Users;
use crate::cli::CliError;
use crate::config::Limits;
use crate::net::inbox::Respond;
use crate::net::outgoing::SendLimits;
use crate::net::tls::Door;
use crate::net::web_remote::{TellWeb, Web};
use crate::net::{call_stack, own_user, remote};
use crate::q::error::Locals;
use crate::q::host::{Caller, Host, Resume, Setting};
use crate::q::session::{Debugger, Session};
use crate::q::{QError, apply};
use crate::sys::memory::Sources;
use crate::table::{Sym, Value, symbol};
use rustix::termios::tcgetwinsize;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Input of the console.
pub enum ConsoleEvent {
    Typed(Typed),
    Connection(ConnectionEvent),
    /// SIGTERM was received.
    Terminated,
}

/// Exit code after SIGTERM: 128 + signal number, the convention of shells.
const TERMINATED: i32 = 143;

/// How a session that continues after the end of its input is ended.
const TO_END: &str = "Ctrl-C or SIGTERM ends it, and so does a last line `exit 0`";

/// Maximum depth of nested debuggers.
const MAX_SUSPENDED: usize = 20;

/// What surrounds the session. It is shared with the debugger, which is called in the midst of an evaluation and serves what the console
/// serves: so nothing of it stays borrowed while the session evaluates.
pub(super) struct Console {
    pub(super) screen: Screen,
    events: Receiver<ConsoleEvent>,
    keyboard: Keyboard,
    terminal: bool,
    pub(super) own: Caller,
    /// Next call of `.z.ts`, and its interval in milliseconds.
    tick: Cell<Option<(Instant, i64)>>,
    /// Console size taken from the window; any other size was set by hand.
    window: Cell<Option<[usize; 2]>>,
    /// Ctrl-C was pressed on an empty line.
    interrupted: Cell<bool>,
    /// Lines read and not yet evaluated.
    pending: RefCell<VecDeque<Vec<u8>>>,
    /// The keyboard reads a line.
    is_prompted: Cell<bool>,
    input_ended: Cell<bool>,
    /// The remark that the session outlives its input was made.
    is_noted: Cell<bool>,
    /// Suspended evaluations, newest last.
    suspended: RefCell<Vec<Suspended>>,
    /// How the newest of them continues, once that is decided.
    resume: RefCell<Option<Resume>>,
    /// Connected clients by handle, with what they speak.
    pub(super) clients: RefCell<HashMap<i32, (Caller, Dialect)>>,
    /// What clients have set by `\c` and `\P`, by handle.
    pub(super) consoles: RefCell<HashMap<i32, (crate::q::Console, Sym)>>,
    pub(super) admitted: RefCell<Admitted>,
    pub(super) trusts_clients: bool,
    /// Senders of deferred responses, by handle, oldest first.
    pub(super) deferred: RefCell<HashMap<i32, VecDeque<Respond>>>,
    /// The script of the command line failed.
    script_failed: Cell<bool>,
    /// Lines are in k: `\\` alone switches.
    is_k: Cell<bool>,
    handlers: Arc<HandlersSet>,
}

thread_local! {
    /// The console of this thread, for the debugger. An evaluation on another thread has none, and is not suspended.
    static HERE: RefCell<Option<Rc<Console>>> = const { RefCell::new(None) };
}

/// The debugger of the session: the console of the evaluation's thread.
struct AtConsole;

impl Debugger for AtConsole {
    fn suspended(&self, session: &mut Session, error: &mut QError) -> Resume {
        match HERE.with(|here| here.borrow().clone()) {
            Some(console) => console.suspended(session, error),
            None => Resume::Pass,
        }
    }
}

/// Returns the users file as an absolute path: each login reads it again, and `\cd` may have changed the directory since.
///
/// # Errors
/// The file cannot be read or parsed: the session would refuse every login.
fn users_file(path: &str) -> Result<PathBuf, CliError> {
    let path = std::path::absolute(path).map_err(|error| CliError::Failed(format!("users {path}: {error}")))?;
    Users::read(&path, &BTreeSet::new()).map_err(CliError::failed)?;
    Ok(path)
}

/// Runs the session and returns its exit code.
///
/// # Errors
/// Why the session cannot start.
pub fn run(options: &QOptions, door: Option<Arc<Door>>) -> Result<i32, CliError> {
    let users = options.users.as_deref().map(users_file).transpose()?;
    let (sender, events) = channel();
    let screen = Screen::default();
    let terminal = std::io::stdin().is_terminal();
    screen.set_notes(Notes::of(terminal, options.start.quiet));
    let to_console = sender.clone();
    signals::watch(move || drop(to_console.send(ConsoleEvent::Terminated)))?;
    let to_console = sender.clone();
    let received = move |inbox| drop(to_console.send(ConsoleEvent::Connection(ConnectionEvent::Received(inbox))));
    let to_console = sender.clone();
    let web: TellWeb = Arc::new(move |inbox, event, done| {
        drop(to_console.send(ConsoleEvent::Connection(ConnectionEvent::Web { inbox, event, done })));
    });
    let limits = Limits::default();
    // A session has no limit per connection, only the one for all connections together.
    let send_limits = SendLimits::new(limits.outboxes_bytes, limits.outboxes_bytes);
    let connector = remote::connector(Arc::new(received), Web::of(&limits, Some(web)), send_limits);
    let mut session = Session::console(options.start.clone(), Some(connector))
        .with_threads(options.threads.unwrap_or(0))
        .with_processes(options.processes);
    session.set_output(Box::new(screen.clone()));
    session.set_stacks(call_stack::ask);
    call_stack::serve();
    let own = Caller {
        user: own_user::name().into_bytes(),
        address: i32::from_be_bytes([127, 0, 0, 1]),
        ..Caller::default()
    };
    session.set_caller(own.clone());
    let to_console = sender.clone();
    let to_console: ToConsole = Arc::new(move |event| drop(to_console.send(ConsoleEvent::Connection(event))));
    let handlers = Arc::new(HandlersSet::default());
    session.set_door(Box::new(Port::new(to_console, users, options.sites.clone(), door, Arc::clone(&handlers))));
    let typed = move |typed| drop(sender.send(ConsoleEvent::Typed(typed)));
    let console = Rc::new(Console {
        keyboard: Keyboard::start(terminal, screen.clone(), typed)?,
        screen,
        events,
        terminal,
        own,
        tick: Cell::default(),
        window: Cell::default(),
        interrupted: Cell::default(),
        pending: RefCell::default(),
        is_prompted: Cell::default(),
        input_ended: Cell::default(),
        is_noted: Cell::default(),
        suspended: RefCell::default(),
        resume: RefCell::default(),
        clients: RefCell::default(),
        consoles: RefCell::default(),
        admitted: RefCell::default(),
        trusts_clients: options.trusts_clients,
        deferred: RefCell::default(),
        script_failed: Cell::default(),
        is_k: Cell::default(),
        handlers,
    });
    HERE.with(|here| *here.borrow_mut() = Some(Rc::clone(&console)));
    session.set_debugger(Arc::new(AtConsole));
    console.prepare(&mut session, options)?;
    while session.exited().is_none() && !console.screen.is_closed() && console.goes_on(&session) {
        console.serve(&mut session);
    }
    Ok(console.end(&mut session))
}

/// What keeps the session running without input, as in kdb+: its port and its connections. `None` without any.
fn kept_by(session: &Session) -> Option<String> {
    let (port, handles) = (session.port(), session.open_handles());
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

/// The function that the session has set as a handler.
pub(super) fn handler(session: &Session, name: &str) -> Option<Value> {
    session.global(symbol::find(name.as_bytes())?)
}

impl Console {
    fn prepare(&self, session: &mut Session, options: &QOptions) -> Result<(), CliError> {
        self.fit_to_window(session, options.sized);
        if self.terminal && !options.start.quiet {
            let version = env!("CARGO_PKG_VERSION");
            self.screen.write(
                format!("elastick {version}, q console; \\help explains names, \\\\ or Ctrl-D ends it\n").as_bytes(),
            );
        }
        // The rest is for other processes and for what is not counted.
        let memory = Sources::default().memory().map_or(0, |memory| memory.total_bytes / 5 * 4);
        session.set_own_memory(memory);
        if let Some(mb) = options.workspace_mb.and_then(|mb| i64::try_from(mb).ok()) {
            session.change(Setting::Workspace, mb.saturating_mul(1 << 20)).map_err(CliError::failed)?;
        }
        // `-t` must be set before the script is loaded: KX's tick.q reads `system"t"` to decide whether it publishes in batches.
        for command in &options.commands {
            session.line(format!("\\{command}").as_bytes()).map_err(CliError::failed)?;
        }
        if let Some(port) = &options.port {
            session.listen(port.as_bytes()).map_err(CliError::failed)?;
        }
        // As in kdb+: the file in QINIT, by default q.q in QHOME if there is one.
        let home = || std::env::var("QHOME").map(|home| format!("{home}/q.q")).ok();
        let of_home = || home().filter(|file| Path::new(file).is_file());
        if let Some(profile) = std::env::var("QINIT").ok().filter(|file| !file.is_empty()).or_else(of_home) {
            self.line(session, format!("\\l {profile}").as_bytes());
        }
        if let Some(script) = options.target.as_ref().filter(|_| session.exited().is_none()) {
            self.script_failed.set(!self.line(session, format!("\\l {script}").as_bytes()));
        }
        Ok(())
    }

    /// Whether the session continues: always before the end of its input, and after it as long as something keeps it.
    fn goes_on(&self, session: &Session) -> bool {
        if !self.input_ended.get() {
            return true;
        }
        let Some(kept_by) = kept_by(session) else {
            if session.setting(Setting::Timer) > 0 {
                self.screen.remark(b"(end of input; the session ends: a timer alone does not keep it, -p PORT does)\n");
            }
            return false;
        };
        if !self.is_noted.replace(true) {
            let note = format!("(end of input; the session continues for {kept_by}; {TO_END})\n");
            self.screen.remark(note.as_bytes());
        }
        true
    }

    /// Waits for the next input, event or tick, and serves it.
    fn serve(&self, session: &mut Session) {
        if !self.input_ended.get() && !self.is_prompted.replace(true) {
            self.keyboard.request(self.prompt(session));
        }
        self.note_handlers(session);
        match self.next(session) {
            None => self.aside(session, |session| self.tick(session)),
            Some(ConsoleEvent::Typed(typed)) => {
                self.is_prompted.set(false);
                self.typed(session, typed);
            }
            Some(ConsoleEvent::Connection(event)) => {
                self.aside(session, |session| self.connection_event(session, event));
            }
            Some(ConsoleEvent::Terminated) => {
                self.aside(session, |session| {
                    // `exit` returns an error that unwinds the running evaluation; none is running here.
                    let _ = session.exit(TERMINATED);
                });
            }
        }
        self.send_deferred(session);
    }

    /// Evaluates what is not a line of the console.
    fn aside(&self, session: &mut Session, work: impl FnOnce(&mut Session)) {
        session.apart(|session| {
            session.set_caller(self.own.clone());
            work(session);
        });
    }

    /// Asks the person at the console how an evaluation that failed continues. Clients and the timer are served meanwhile.
    fn suspended(&self, session: &mut Session, error: &mut QError) -> Resume {
        if self.suspended.borrow().len() >= MAX_SUSPENDED {
            return Resume::Pass;
        }
        self.screen.write_failure(&error.shown());
        self.suspended.borrow_mut().push(Suspended::new(error.clone()));
        let space = session.namespace();
        self.enter_frame(session);
        if self.terminal {
            // The lines pasted after the failed one expect that it succeeds: they are dropped.
            self.pending.borrow_mut().clear();
        }
        let resume = signals::pausing(|| {
            loop {
                self.pending_lines(session);
                if let Some(resume) = self.resume.borrow_mut().take() {
                    break resume;
                }
                if session.exited().is_some() || self.screen.is_closed() || self.input_ended.get() {
                    break Resume::Abort;
                }
                self.serve(session);
            }
        });
        if let Some(ended) = self.suspended.borrow_mut().pop() {
            *error = ended.into_error();
        }
        let _ = session.set_namespace(space);
        session.set_debugs(true);
        resume
    }

    /// Sets the namespace to that of the frame under inspection.
    fn enter_frame(&self, session: &mut Session) {
        if let Some(newest) = self.suspended.borrow().last() {
            // It was one before.
            let _ = session.set_namespace(newest.namespace());
        }
    }

    /// Evaluates in the frame under inspection, which keeps what becomes of its locals.
    fn in_frame<R>(&self, session: &mut Session, work: impl FnOnce(&mut Session, &mut Locals) -> R) -> R {
        let mut locals = self.suspended.borrow().last().map_or_else(Locals::new, Suspended::locals);
        let result = self.evaluating(session, |session| work(session, &mut locals));
        if let Some(newest) = self.suspended.borrow_mut().last_mut() {
            newest.set_locals(locals);
        }
        result
    }

    pub(super) fn note_handlers(&self, session: &Session) {
        self.handlers.note(|handler| handler.has_default() || handler.of(session).is_some());
        signals::note_exit_handler(session.exited().is_none() && handler(session, ".z.exit").is_some());
    }

    /// Returns the next event; `None` if the timer is due.
    fn next(&self, session: &Session) -> Option<ConsoleEvent> {
        let interval_ms = session.setting(Setting::Timer);
        if self.tick.get().map_or(0, |(_, ms)| ms) != interval_ms {
            self.tick.set((interval_ms > 0).then(|| (Instant::now(), interval_ms)));
        }
        let Some((at, _)) = self.tick.get() else { return self.events.recv().ok() };
        self.events.recv_timeout(at.saturating_duration_since(Instant::now())).ok()
    }

    fn prompt(&self, session: &Session) -> Prompt {
        if !self.terminal || session.is_quiet() {
            return Prompt::default();
        }
        let space = String::from_utf8_lossy(symbol::text(session.namespace())).into_owned();
        let suspended = ")".repeat(self.suspended.borrow().len());
        let known = Known {
            names: session.completions(),
            tables: session.tables().into_iter().collect(),
            explained: help::explained(),
            has_files: true,
        };
        let text = if self.is_k.get() { format!("  {suspended}") } else { format!("q{space}){suspended}") };
        Prompt { text, known }
    }

    /// Sets the console size to that of the window, unless it was set by hand.
    fn fit_to_window(&self, session: &mut Session, by_hand: bool) {
        let mut console = session.console();
        let number = |name: &str| std::env::var(name).ok()?.parse::<u16>().ok();
        let size = match (number("LINES"), number("COLUMNS")) {
            (Some(rows), Some(columns)) if !self.terminal => Some((rows, columns)),
            _ if self.terminal => tcgetwinsize(std::io::stdout()).ok().map(|size| (size.ws_row, size.ws_col)),
            _ => None,
        };
        let Some((rows, columns)) = size.filter(|(rows, columns)| *rows > 0 && *columns > 0) else { return };
        if by_hand || self.window.get().is_some_and(|window| window != [console.rows, console.columns]) {
            return;
        }
        console.rows = usize::from(rows).clamp(10, 2000);
        console.columns = usize::from(columns).clamp(10, 2000);
        self.window.set(Some([console.rows, console.columns]));
        // Cannot fail for the session's own console.
        let _ = session.set_console(console);
    }

    fn typed(&self, session: &mut Session, typed: Typed) {
        match typed {
            Typed::Text(texts) => {
                self.interrupted.set(false);
                self.fit_to_window(session, self.window.get().is_none());
                self.pending.borrow_mut().extend(texts);
                self.pending_lines(session);
            }
            Typed::Interrupted if self.interrupted.get() => drop(session.exit(130)),
            Typed::Interrupted => {
                self.interrupted.set(true);
                self.screen.write(b"(Ctrl-C again ends the session)\n");
            }
            Typed::End if self.terminal => drop(session.exit(0)),
            Typed::End => self.input_ended.set(true),
        }
    }

    /// Evaluates the lines that were read, up to one that resumes a suspended evaluation.
    fn pending_lines(&self, session: &mut Session) {
        while session.exited().is_none() && self.resume.borrow().is_none() {
            let Some(text) = self.pending.borrow_mut().pop_front() else { break };
            // Pasted input stops at its first error, because its lines belong together; lines of a pipe are independent.
            if !self.line(session, &text) && self.terminal {
                self.pending.borrow_mut().clear();
            }
        }
    }

    /// Evaluates a line and prints the result; returns whether it succeeded.
    fn line(&self, session: &mut Session, text: &[u8]) -> bool {
        let text = text.trim_ascii_end();
        if text.is_empty() || text.starts_with(b"/") {
            return true;
        }
        if let Some(help) = help::answer(text, session.console_now().columns) {
            self.screen.write(&help);
            return true;
        }
        let action = self.suspended.borrow_mut().last_mut().map(|newest| newest.interpret(text));
        let is_suspended = action.is_some();
        match action {
            None | Some(DebugAction::Evaluate) => {}
            Some(DebugAction::Print(shown)) => {
                self.enter_frame(session);
                self.screen.write(&shown);
                return true;
            }
            Some(DebugAction::End(resume)) => {
                *self.resume.borrow_mut() = Some(resume);
                return true;
            }
            Some(DebugAction::With(text)) => {
                let result = self.in_frame(session, |session, locals| session.value_among(&text, locals));
                let result = result.map(|value| *self.resume.borrow_mut() = Some(Resume::With(value)));
                return self.failed(session, result);
            }
        }
        if text == b"\\" && !is_suspended {
            // Without a debugger it leaves one in which a terminal would be: a transcript goes on in q.
            self.is_k.set(self.debugs(session) && !self.is_k.get());
            return true;
        }
        let in_k = if self.is_k.get() && !text.starts_with(b"\\") { [b"k)", text].concat() } else { Vec::new() };
        let text = if in_k.is_empty() { text } else { &in_k[..] };
        let result = match (is_suspended, text) {
            (false, _) => self.evaluating(session, |session| session.line(text)),
            // A command runs with the owner's rights. The suspended evaluation, which may be a client's code, keeps its own.
            (true, [b'\\', ..]) => session.apart(|session| {
                session.set_caller(self.own.clone());
                self.evaluating(session, |session| session.line(text))
            }),
            (true, _) => self.in_frame(session, |session, locals| session.line_among(text, locals)),
        };
        self.failed(session, result)
    }

    /// Whether an error in a function opens the debugger.
    fn debugs(&self, session: &Session) -> bool {
        self.terminal || session.setting(Setting::ErrorTrap) == 1
    }

    /// Runs the evaluation of a line.
    fn evaluating<R>(&self, session: &mut Session, work: impl FnOnce(&mut Session) -> R) -> R {
        session.set_debugs(self.debugs(session));
        let result = signals::evaluating(|| work(session));
        session.set_debugs(false);
        result
    }

    /// Prints an error, unless the debugger has shown it or the session is ending.
    pub(super) fn failed(&self, session: &Session, result: Result<(), QError>) -> bool {
        match result {
            Err(error) if session.exited().is_none() => {
                if !error.is_shown() {
                    self.screen.write_failure(&error.shown());
                }
                false
            }
            other => other.is_ok(),
        }
    }

    fn tick(&self, session: &mut Session) {
        if let Some((_, ms)) = self.tick.get() {
            self.tick.set(Some((Instant::now() + Duration::from_millis(u64::try_from(ms).unwrap_or(0)), ms)));
        }
        if let Some(handler) = handler(session, ".z.ts") {
            let now = Value::Timestamp(crate::q::now_ns());
            self.call(session, &handler, now);
        }
    }

    /// Calls a handler whose result is not used.
    pub(super) fn call(&self, session: &mut Session, handler: &Value, argument: Value) {
        let limits = session.limits();
        session.refresh_tables();
        session.begin();
        let result = signals::evaluating(|| apply(session, handler, &[argument], &limits));
        self.failed(session, result.map(drop));
    }

    /// Returns the exit code, after a call of `.z.exit` with it.
    fn end(&self, session: &mut Session) -> i32 {
        // As in kdb+, the session continues after a failed script; without a terminal the exit code reports the failure.
        let failed = self.script_failed.get() && !self.terminal;
        let code = session.take_exit().unwrap_or(i32::from(failed));
        if let Some(handler) = handler(session, ".z.exit") {
            let limits = session.limits();
            let result = signals::evaluating(|| apply(session, &handler, &[Value::Int(code)], &limits));
            self.failed(session, result.map(drop));
        }
        // `.z.exit` may have called `exit` with another code.
        session.exited().unwrap_or(code)
    }
}
