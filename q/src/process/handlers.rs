//! Event handlers of a process (`.z.pg`, `.z.po`, `.z.ph`, …): their arguments and the meaning of their results.

use crate::io::wire::{from_view, to_wire};
use crate::process::entry::{apply, eval_message};
use crate::process::rules::Rules;
use crate::runtime::error::QError;
use crate::runtime::host::Host;
use crate::runtime::limits::Limits;
use crate::runtime::refused;
use crate::runtime::time::now_utc_ns as now_ns;
use columns::table::{Items, Sym, Value, symbol};
use proto::{DecodeError, DecodeErrorKind, Endian, View, Writer};

/// A handler that the owner of a process may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// `.z.pg`: sync message.
    Get,
    /// `.z.ps`: async message.
    Set,
    /// `.z.bm`: malformed message.
    Malformed,
    /// `.z.pw`: login with user and password.
    Login,
    /// `.z.po` and `.z.pc`: connection opened, closed.
    Opened,
    Closed,
    /// `.z.wo` and `.z.wc`: WebSocket connection opened, closed.
    WebOpened,
    WebClosed,
    /// `.z.ws`: WebSocket message.
    Web,
    /// `.z.ac`: authentication of an HTTP request.
    Authorise,
    /// `.z.ph` and `.z.pp`: HTTP GET and POST; `.z.pm`: OPTIONS, PATCH, PUT and DELETE.
    Page,
    Post,
    Methods,
    /// `.z.ts`: timer.
    Timer,
    /// `.z.exit`: process exit.
    Exit,
    /// `.u.end`: end of the tickerplant's day.
    DayEnd,
}

impl Handler {
    pub fn name(self) -> &'static [u8] {
        match self {
            Handler::Get => b".z.pg",
            Handler::Set => b".z.ps",
            Handler::Malformed => b".z.bm",
            Handler::Login => b".z.pw",
            Handler::Opened => b".z.po",
            Handler::Closed => b".z.pc",
            Handler::WebOpened => b".z.wo",
            Handler::WebClosed => b".z.wc",
            Handler::Web => b".z.ws",
            Handler::Authorise => b".z.ac",
            Handler::Page => b".z.ph",
            Handler::Post => b".z.pp",
            Handler::Methods => b".z.pm",
            Handler::Timer => b".z.ts",
            Handler::Exit => b".z.exit",
            Handler::DayEnd => b".u.end",
        }
    }

    /// All of them.
    pub const ALL: [Handler; 16] = [
        Handler::Get,
        Handler::Set,
        Handler::Malformed,
        Handler::Login,
        Handler::Opened,
        Handler::Closed,
        Handler::WebOpened,
        Handler::WebClosed,
        Handler::Web,
        Handler::Authorise,
        Handler::Page,
        Handler::Post,
        Handler::Methods,
        Handler::Timer,
        Handler::Exit,
        Handler::DayEnd,
    ];

    /// What the owner sets it to: `\help NAME`.
    pub fn help(self) -> &'static str {
        match self {
            Handler::Get => "function of a client's sync message; its result is the reply",
            Handler::Set => "function of a client's async message",
            Handler::Malformed => "function of a message that cannot be read",
            Handler::Login => "function of user and password; whether the client may connect",
            Handler::Opened => "function of the handle of a client that has connected",
            Handler::Closed => "function of the handle of a client that has gone",
            Handler::WebOpened => "function of the handle of a WebSocket client that has connected",
            Handler::WebClosed => "function of the handle of a WebSocket client that has gone",
            Handler::Web => "function of a WebSocket message",
            Handler::Authorise => "function of an HTTP request; whether it is let in",
            Handler::Page => "function of an HTTP GET",
            Handler::Post => "function of an HTTP POST",
            Handler::Methods => "function of the other HTTP methods",
            Handler::Timer => "function of the time, called every \\t milliseconds",
            Handler::Exit => "function of the exit code, called before the process ends",
            Handler::DayEnd => "function of the date, called at the end of the tickerplant's day",
        }
    }

    /// Returns the handler for an HTTP method.
    pub fn of_method(method: &str) -> Handler {
        match method {
            "GET" | "HEAD" => Handler::Page,
            "POST" => Handler::Post,
            _ => Handler::Methods,
        }
    }

    /// Returns the handler's function, if set.
    pub fn of(self, host: &dyn Host) -> Option<Value> {
        host.global(symbol::find(self.name())?)
    }

    /// Whether the library has a function for it, which serves as long as no other is set.
    pub fn has_default(self) -> bool {
        self == Handler::Page
    }
}

/// An HTTP request as passed to a handler.
#[derive(Clone, Debug, Default)]
pub struct WebRequest {
    pub method: &'static str,
    /// Text that the handler gets: for GET path and query without the first `/`; for POST and the methods of `.z.pm` these, a space and the body.
    pub text: Vec<u8>,
    /// Header fields.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An event passed to a handler.
#[derive(Debug)]
pub enum HandlerEvent {
    /// A message from another process: one serialised object.
    Message {
        is_sync: bool,
        body: Vec<u8>,
        endian: Endian,
    },
    Login {
        user: Vec<u8>,
        password: Vec<u8>,
        /// `.z.a` of the client.
        address: i32,
    },
    Opened {
        web: bool,
    },
    Closed {
        web: bool,
    },
    /// WebSocket message.
    Web {
        is_text: bool,
        payload: Vec<u8>,
    },
    Authorise(WebRequest),
    Page(WebRequest),
    Timer,
    Exit,
    /// End of the tickerplant's day, in days from 2000.01.01.
    DayEnd {
        date: i32,
    },
}

/// Result of `.z.ac` for an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Refused,
    /// Authenticated as this user.
    User(Vec<u8>),
    /// The complete response.
    Answer(Vec<u8>),
    /// Falls back to basic authentication, as without a handler.
    Basic,
}

/// Action to take after an event.
#[derive(Debug)]
pub enum Outcome {
    /// Response to a message: one serialised object.
    Object(Vec<u8>),
    /// Malformed message: report the error to the sender and close the connection.
    Malformed(QError),
    /// Whether the login is accepted.
    Admit(bool),
    Verdict(Verdict),
    /// Complete HTTP response.
    Page(Vec<u8>),
    Nothing,
}

/// Parses a message. Its size was limited on receipt; structure and nesting are checked here.
pub fn decoded(body: &[u8], endian: Endian, max_depth: usize) -> Result<Value, QError> {
    let limits = proto::Limits { max_message_bytes: u64::MAX, max_decompressed_bytes: u64::MAX, max_depth };
    let bad = |error: DecodeError| {
        if matches!(error.kind, DecodeErrorKind::TooDeep { .. }) {
            refused::count_too_deep();
        }
        QError::with(error.term(), error.to_string())
    };
    let (view, _) = View::parse(body, endian, &limits).map_err(bad)?;
    from_view(&view)
}

fn encoded(result: &Value) -> Result<Vec<u8>, QError> {
    let mut object = Vec::new();
    let mut writer = Writer::new(&mut object);
    to_wire(result, &mut writer)?;
    writer.finish().map_err(|error| QError::with("limit", error.to_string()))?;
    Ok(object)
}

/// Handles an event of connection `handle` (0 for none): calls its handler, or does what kdb+ does without one.
///
/// # Errors
/// Named as in kdb+: `limit` of the message, errors of the evaluation, and a result that cannot be serialised.
pub fn evaluate(
    host: &mut dyn Host,
    rules: &Rules,
    handle: i32,
    event: &HandlerEvent,
    limits: &Limits,
) -> Result<Outcome, QError> {
    let call = |host: &mut dyn Host, handler: Handler, arguments: &[Value]| match handler.of(host) {
        Some(f) => apply(host, &f, arguments, limits).map(Some),
        None if handler.has_default() => {
            let name = symbol::intern_name(handler.name()).map_err(QError::from)?;
            apply(host, &Value::Sym(name), arguments, limits).map(Some)
        }
        None => Ok(None),
    };
    match event {
        HandlerEvent::Message { is_sync, body, endian } => {
            let message = match limits.within(|| decoded(body, *endian, limits.message_depth)) {
                Err(error) if error.name.as_ref() == b"badmsg" => {
                    let bytes = Items::Byte(raw(*is_sync, body, *endian).into()).into();
                    call(host, Handler::Malformed, &[Value::list(vec![Value::Int(handle), bytes])])?;
                    return Ok(Outcome::Malformed(error));
                }
                other => rules.admitted(other?)?,
            };
            host.begins(&message);
            let handler = if *is_sync { Handler::Get } else { Handler::Set };
            let result = match call(host, handler, std::slice::from_ref(&message))? {
                Some(result) => result,
                None => eval_message(host, &message, limits)?,
            };
            limits.within(|| encoded(&result)).map(Outcome::Object)
        }
        HandlerEvent::Login { user, password, .. } => {
            let user = symbol::intern_name(user).map_err(QError::from)?;
            let admitted = call(host, Handler::Login, &[Value::Sym(user), Value::chars(&password[..])])?;
            Ok(Outcome::Admit(matches!(admitted, None | Some(Value::Bool(true)))))
        }
        HandlerEvent::Opened { web } => {
            call(host, if *web { Handler::WebOpened } else { Handler::Opened }, &[Value::Int(handle)])?;
            Ok(Outcome::Nothing)
        }
        HandlerEvent::Closed { web } => {
            call(host, if *web { Handler::WebClosed } else { Handler::Closed }, &[Value::Int(handle)])?;
            Ok(Outcome::Nothing)
        }
        HandlerEvent::Timer => {
            call(host, Handler::Timer, &[Value::Timestamp(now_ns())])?;
            Ok(Outcome::Nothing)
        }
        HandlerEvent::Exit => {
            call(host, Handler::Exit, &[Value::Int(0)])?;
            Ok(Outcome::Nothing)
        }
        HandlerEvent::DayEnd { date } => {
            call(host, Handler::DayEnd, &[Value::Date(*date)])?;
            Ok(Outcome::Nothing)
        }
        HandlerEvent::Web { is_text, payload } => {
            let message = match is_text {
                true => Value::chars(&payload[..]),
                false => Items::Byte(payload.clone().into()).into(),
            };
            host.begins(&message);
            call(host, Handler::Web, &[message])?;
            Ok(Outcome::Nothing)
        }
        HandlerEvent::Authorise(request) => {
            let said = call(host, Handler::Authorise, &[Value::list(parts(request)?)])?;
            verdict(said.as_ref()).map(Outcome::Verdict)
        }
        HandlerEvent::Page(request) => {
            let mut given = parts(request)?;
            let handler = Handler::of_method(request.method);
            if handler == Handler::Methods {
                let method = symbol::intern_name(request.method.as_bytes()).map_err(QError::from)?;
                given.insert(0, Value::Sym(method));
            }
            let page = call(host, handler, &[Value::list(given)])?.ok_or(QError::with("nyi", ".z.ph is not set"))?;
            Ok(Outcome::Page(page.as_text().ok_or(QError::with("type", ".z.ph must return a string"))?.to_vec()))
        }
    }
}

/// The message with its header, as received.
fn raw(is_sync: bool, body: &[u8], endian: Endian) -> Vec<u8> {
    let total = u32::try_from(body.len().saturating_add(proto::HEADER_BYTES)).unwrap_or(u32::MAX);
    let (order, length) = match endian {
        Endian::Little => (1, total.to_le_bytes()),
        Endian::Big => (0, total.to_be_bytes()),
    };
    [&[order, u8::from(is_sync), 0, 0], &length[..], body].concat()
}

/// Text and header fields of a request, as passed to a handler.
fn parts(request: &WebRequest) -> Result<Vec<Value>, QError> {
    let name = |text: &[u8]| symbol::intern_name(text).map_err(QError::from);
    let names: Vec<Sym> = request.fields.iter().map(|(field, _)| name(field)).collect::<Result<_, _>>()?;
    let values = request.fields.iter().map(|(_, value)| Value::chars(&value[..])).collect();
    Ok(vec![Value::chars(&request.text[..]), Value::dict(Value::symbols(names), Value::list(values))])
}

/// Parses the result of `.z.ac`: `(0;"")`, `(1;"user")`, `(2;"response")` or `(4;"")`.
fn verdict(said: Option<&Value>) -> Result<Verdict, QError> {
    let Some(said) = said else { return Ok(Verdict::Basic) };
    if said.count() != 2 {
        return Err(QError::named("length"));
    }
    let text = || match said.at(1) {
        Value::Sym(name) => Ok(symbol::text(name).to_vec()),
        other => other.as_text().map(<[u8]>::to_vec).ok_or(QError::named("type")),
    };
    match said.at(0).as_long() {
        Some(0) => Ok(Verdict::Refused),
        Some(1) => Ok(Verdict::User(text()?)),
        Some(2) => Ok(Verdict::Answer(text()?)),
        Some(4) => Ok(Verdict::Basic),
        _ => Err(QError::named("domain")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::session::Session;

    fn outcome(program: &[u8], event: &HandlerEvent) -> Result<Outcome, String> {
        let mut session = Session::new();
        session.line(program).expect("it evaluates");
        let result = evaluate(&mut session, &Rules::default(), 7, event, &Limits::default());
        result.map_err(|error| String::from_utf8_lossy(&error.name).into_owned())
    }

    fn judged(program: &[u8]) -> Result<Verdict, String> {
        let fields = vec![(b"Token".to_vec(), b"t1".to_vec())];
        let request = WebRequest { method: "GET", text: b"a?b".to_vec(), fields };
        match outcome(program, &HandlerEvent::Authorise(request))? {
            Outcome::Verdict(verdict) => Ok(verdict),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_authorising_handler_names_the_user() {
        assert_eq!(judged(b"a:1"), Ok(Verdict::Basic));
        assert_eq!(judged(b".z.ac:{$[\"t1\"~x[1;`Token];(1;\"ann\");(0;\"\")]}"), Ok(Verdict::User(b"ann".to_vec())));
        assert_eq!(judged(b".z.ac:{$[\"t2\"~x[1;`Token];(1;\"ann\");(0;\"\")]}"), Ok(Verdict::Refused));
        assert_eq!(judged(b".z.ac:{(2;\"no \",x 0)}"), Ok(Verdict::Answer(b"no a?b".to_vec())));
        assert_eq!(judged(b".z.ac:{(4;\"\")}"), Ok(Verdict::Basic));
        assert_eq!(judged(b".z.ac:{(3;\"\")}"), Err("domain".to_string()));
        assert_eq!(judged(b".z.ac:{1b}"), Err("length".to_string()));
    }

    #[test]
    fn other_methods_have_a_handler_of_their_own() {
        let request = WebRequest { method: "PUT", text: b"a b".to_vec(), fields: Vec::new() };
        let page = outcome(b".z.pm:{string[x 0],\" \",x 1}", &HandlerEvent::Page(request));
        assert!(matches!(page, Ok(Outcome::Page(text)) if text == b"PUT a b"));
    }

    #[test]
    fn a_message_that_is_none_is_kept_by_its_handler() {
        let event = HandlerEvent::Message { is_sync: true, body: vec![9, 9], endian: Endian::Little };
        let mut session = Session::new();
        session.line(b".z.bm:{bad::x}").expect("it evaluates");
        let result = evaluate(&mut session, &Rules::default(), 7, &event, &Limits::default());
        assert!(matches!(result, Ok(Outcome::Malformed(_))));
        session.line(b"bad").expect("it is there");
        assert_eq!(session.take_printed(), b"7i\n0x010100000a0000000909\n");
    }
}
