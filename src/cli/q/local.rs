//! Local session: evaluates typed lines, timer calls and messages of clients, one at a time.

use super::clients::{Port, Tell};
use super::debug::{Meant, Suspended};
use super::input::{Keyboard, Prompt, Typed};
use super::options::Started;
use super::output::Screen;
use super::peers::{HandlersSet, Happened};
use super::signals;
use crate::cli::CliError;
use crate::net::inbox::{Inbox, Message, Respond};
use crate::net::remote;
use crate::q::handlers::{self, Outcome};
use crate::q::handles::Peer;
use crate::q::host::{Caller, Grants, Host, Setting};
use crate::q::session::Session;
use crate::q::{Limits, QError, Rules, apply, from_view};
use crate::table::{Sym, Value, symbol};
use proto::{Endian, MessageKind, View};
use rustix::termios::tcgetwinsize;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Input of the console.
pub enum ConsoleEvent {
    Typed(Typed),
    Happened(Happened),
}

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
    /// Connected clients by handle.
    clients: HashMap<i32, Caller>,
    /// Clients that speak WebSocket.
    webs: HashSet<i32>,
    trusts_clients: bool,
    /// Senders of deferred responses, by handle, oldest first.
    put_off: HashMap<i32, VecDeque<Respond>>,
    /// The script of the command line failed.
    script_failed: bool,
    set: Arc<HandlersSet>,
}

/// Runs the session and returns its exit code.
///
/// # Errors
/// Why the session cannot start.
pub fn run(started: &Started) -> Result<i32, CliError> {
    let (tell, events) = channel();
    let screen = Screen::default();
    let terminal = std::io::stdin().is_terminal();
    signals::watch()?;
    let say = tell.clone();
    let connector =
        remote::connector(Arc::new(move |inbox| drop(say.send(ConsoleEvent::Happened(Happened::Told(inbox))))));
    let mut session =
        Session::console(started.start.clone(), Some(connector)).with_threads(started.threads.unwrap_or(0));
    session.set_output(Box::new(screen.clone()));
    let own = Caller { user: user(), address: i32::from_be_bytes([127, 0, 0, 1]), ..Caller::default() };
    session.set_caller(own.clone());
    let say = tell.clone();
    let say: Tell = Arc::new(move |happened| drop(say.send(ConsoleEvent::Happened(happened))));
    let set = Arc::new(HandlersSet::default());
    session.set_door(Box::new(Port::new(say, started.users.as_ref().map(Into::into), Arc::clone(&set))));
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
        webs: HashSet::new(),
        trusts_clients: started.trusts_clients,
        put_off: HashMap::new(),
        script_failed: false,
        set,
    };
    console.prepare(started)?;
    let keyboard =
        Keyboard::start(terminal, console.screen.clone(), move |typed| drop(tell.send(ConsoleEvent::Typed(typed))))?;
    console.converse(&keyboard);
    Ok(console.end())
}

/// User name of the process.
fn user() -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    let named = std::env::var_os("USER").or_else(|| std::env::var_os("LOGNAME"));
    named.map_or_else(|| rustix::process::getuid().as_raw().to_string().into_bytes(), OsStringExt::into_vec)
}

impl Console {
    fn prepare(&mut self, started: &Started) -> Result<(), CliError> {
        self.fit(started.sized);
        if self.terminal && !started.start.quiet {
            let version = env!("CARGO_PKG_VERSION");
            self.screen.write(format!("elastick {version}, q console; \\\\ or Ctrl-D ends it\n").as_bytes());
        }
        if let Some(mb) = started.workspace_mb.and_then(|mb| i64::try_from(mb).ok()) {
            self.session.change(Setting::Workspace, mb.saturating_mul(1 << 20)).map_err(CliError::failed)?;
        }
        let ticking = |command: &&String| command.starts_with("t ");
        for command in started.commands.iter().filter(|c| !ticking(c)) {
            self.session.line(format!("\\{command}").as_bytes()).map_err(CliError::failed)?;
        }
        if let Some(port) = &started.port {
            self.session.listen(port.as_bytes()).map_err(CliError::failed)?;
        }
        if let Some(script) = &started.target {
            self.script_failed = !self.line(format!("\\l {script}").as_bytes());
        }
        for command in started.commands.iter().filter(ticking) {
            self.session.line(format!("\\{command}").as_bytes()).map_err(CliError::failed)?;
        }
        Ok(())
    }

    /// Runs until the session or its input ends.
    fn converse(&mut self, keyboard: &Keyboard) {
        let (mut asked, mut input_ended) = (false, false);
        while self.session.exited().is_none() && !self.screen.is_closed() {
            // As in kdb+, a process without input keeps running for its connections.
            if input_ended && self.session.port() == 0 && self.session.open_handles().is_empty() {
                break;
            }
            if !asked && !input_ended {
                keyboard.ask(self.prompt());
                asked = true;
            }
            self.note_handlers();
            match self.next() {
                None => self.tick(),
                Some(ConsoleEvent::Typed(typed)) => {
                    asked = false;
                    input_ended = self.typed(typed);
                }
                Some(ConsoleEvent::Happened(happened)) => self.happened(happened),
            }
            self.answer_deferred();
        }
    }

    fn note_handlers(&self) {
        self.set.note(|handler| handler.of(&self.session).is_some());
    }

    /// Returns the next event; `None` if the timer is due.
    fn next(&mut self) -> Option<ConsoleEvent> {
        let wanted = self.session.setting(Setting::Timer);
        if self.tick.map_or(0, |(_, ms)| ms) != wanted {
            self.tick = (wanted > 0).then(|| (Instant::now(), wanted));
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
        Prompt { text: format!("q{space}){suspended}"), names: self.session.completions() }
    }

    /// Sets the console size to that of the window, unless it was set by hand.
    fn fit(&mut self, by_hand: bool) {
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
                self.fit(self.window.is_none());
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
        let looks = self.terminal || self.session.setting(Setting::ErrorTrap) == 1;
        self.session.set_debugs(looks);
        let mut locals = None;
        if let Some(newest) = self.suspended.last_mut() {
            match newest.meant(text) {
                Meant::Shown(shown) => self.screen.write(&shown),
                Meant::Left => drop(self.suspended.pop()),
                Meant::Expression => locals = Some(newest.locals()),
            }
            if locals.is_none() {
                return true;
            }
        }
        let session = &mut self.session;
        let result = signals::evaluating(|| match locals {
            Some(locals) if !text.starts_with(b"\\") => session.line_among(text, &locals),
            _ => session.line(text),
        });
        if looks
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

    fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Opened { peer, user, address, web } => self.opened(peer, user, address, web),
            Happened::Login { user, password, answer } => {
                // The login may have timed out, which rejects it.
                let _ = answer.send(self.lets_in(&user, password));
            }
            Happened::Told(inbox) => self.told(&inbox),
            Happened::Web { inbox, event, done } => {
                if let Some(caller) = self.clients.get(&inbox.number()).cloned() {
                    let result = self.event(caller, &event);
                    self.failed(result.map(drop));
                }
                done();
            }
            Happened::Asked { handle, user, address, event, answer } => {
                let remote = !self.trusts_clients && !matches!(event, handlers::HandlerEvent::Authorise(_));
                let caller = Caller {
                    handle,
                    user,
                    address,
                    tls: None,
                    remote,
                    grants: Grants { relay: true, ..Grants::default() },
                };
                let result = self.event(caller, &event);
                match result {
                    Ok(outcome) => answer(Some(outcome)),
                    Err(error) => {
                        answer(None);
                        self.failed(Err(error));
                    }
                }
            }
        }
    }

    /// Calls the handler of an event on behalf of this caller.
    fn event(&mut self, caller: Caller, event: &handlers::HandlerEvent) -> Result<Outcome, QError> {
        let mut limits = self.session.limits();
        limits.deadline = self.client_deadline();
        let (session, handle) = (&mut self.session, caller.handle);
        session.set_caller(caller);
        if !self.trusts_clients {
            session.serve_caller();
        }
        let space = session.namespace();
        // Clients' messages are evaluated in the root namespace.
        let _ = session.set_namespace(Sym::NULL);
        let result = signals::evaluating(|| handlers::evaluate(session, &Rules::default(), handle, event, &limits));
        let _ = session.set_namespace(space);
        session.set_caller(self.own.clone());
        result
    }

    /// Returns the deadline of an evaluation for a client: `\T`.
    fn client_deadline(&self) -> Option<Instant> {
        let seconds = u64::try_from(self.session.setting(Setting::QueryTime)).unwrap_or(0);
        (seconds > 0).then(|| Instant::now().checked_add(Duration::from_secs(seconds))).flatten()
    }

    /// Evaluates the messages received on a connection, and handles its close.
    fn told(&mut self, inbox: &Inbox) {
        while inbox.number() != 0
            && let Some(Message { kind, body, endian, answer }) = inbox.take()
        {
            let handle = inbox.number();
            let limits = self.limits_of(handle);
            self.session.asked(kind == MessageKind::Sync);
            let result = self.request(handle, kind, (&body, endian), &limits);
            let deferred = self.session.has_deferred();
            // Before the response is sent, so that the loop already has any handlers the message set.
            self.note_handlers();
            // A message that deferred its response and then sent it has been answered, even if it failed afterwards.
            if deferred && (result.is_ok() || !self.session.undefer(handle)) {
                self.put_off.entry(handle).or_default().push_back(answer);
            } else if kind == MessageKind::Sync {
                let encoded = |value| limits.within(|| remote::encoded(MessageKind::Response, &value));
                let encoded = result.and_then(encoded);
                answer(encoded.unwrap_or_else(|error| proto::encode::error_message(&error.name)));
            } else {
                self.failed(result.map(drop));
                answer(Vec::new());
            }
            self.answer_deferred();
        }
        if inbox.is_over() {
            self.closed(inbox);
        }
    }

    /// Sends the deferred responses that are available now.
    fn answer_deferred(&mut self) {
        for (handle, result) in self.session.take_answers() {
            let Some(answer) = self.put_off.get_mut(&handle).and_then(VecDeque::pop_front) else { continue };
            let limits = self.session.limits();
            let encoded = match result {
                Ok(value) => limits.within(|| remote::encoded(MessageKind::Response, &value)),
                Err(name) => Ok(proto::encode::error_message(&name)),
            };
            answer(encoded.unwrap_or_else(|error| proto::encode::error_message(&error.name)));
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
        session.set_caller(self.clients.get(&handle).cloned().unwrap_or(Caller { handle, ..Caller::default() }));
        let space = session.namespace();
        // Clients' messages are evaluated in the root namespace.
        let _ = session.set_namespace(Sym::NULL);
        let result = signals::evaluating(|| match &handler {
            Some(handler) => apply(session, handler, &[message], limits),
            None => crate::q::eval_message(session, &message, limits),
        });
        let _ = session.set_namespace(space);
        session.set_caller(self.own.clone());
        result
    }

    fn opened(&mut self, peer: Box<dyn Peer>, user: Vec<u8>, address: i32, web: bool) {
        // A connection beyond the limit is closed on drop.
        let Ok(handle) = self.session.adopt(peer) else { return };
        let grants = Grants { relay: true, ..Grants::default() };
        let caller = Caller { handle, user, address, tls: None, remote: !self.trusts_clients, grants };
        self.clients.insert(handle, caller.clone());
        if web {
            self.webs.insert(handle);
        }
        let result = self.event(Caller { remote: false, ..caller }, &handlers::HandlerEvent::Opened { web });
        self.failed(result.map(drop));
    }

    /// Returns the decision of `.z.pw`.
    fn lets_in(&mut self, user: &[u8], password: Vec<u8>) -> bool {
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
        let answer = matches!(result, Ok(Value::Bool(true)));
        self.failed(result.map(drop));
        answer
    }

    fn closed(&mut self, inbox: &Inbox) {
        let handle = inbox.set_number(0);
        if handle == 0 {
            return;
        }
        self.session.forget(handle);
        self.session.forget_deferred(handle);
        self.put_off.remove(&handle);
        self.clients.remove(&handle);
        let handler = if self.webs.remove(&handle) { ".z.wc" } else { ".z.pc" };
        if let Some(handler) = self.handler(handler) {
            self.call(&handler, Value::Int(handle));
        }
    }

    /// Returns the exit code, after a call of `.z.exit` with it.
    fn end(&mut self) -> i32 {
        // As in kdb+, the session continues after a failed script; without a terminal the exit code reports the failure.
        let failed = self.script_failed && !self.terminal;
        let code = self.session.exited().unwrap_or(i32::from(failed));
        if let Some(handler) = self.handler(".z.exit") {
            let limits = self.session.limits();
            let session = &mut self.session;
            let result = signals::evaluating(|| apply(session, &handler, &[Value::Long(i64::from(code))], &limits));
            if let Err(error) = result {
                self.screen.write_failure(&error.shown());
            }
        }
        code
    }
}
