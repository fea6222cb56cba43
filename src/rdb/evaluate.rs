//! What a job comes to: a message or an event, evaluated with the handler that is set for it, or as kdb+ does without one.

use super::host::Asker;
use super::pool::{Job, Task};
use super::scope::{Handler, NodeScope};
use crate::config::Limit;
use crate::metrics;
use crate::q::host::{Caller, Host};
use crate::q::{Limits, QError, apply, eval_message, from_view, to_wire};
use crate::table::{Items, Sym, Value, symbol};
use proto::{DecodeError, Endian, View, Writer};

/// What is to be made of a result.
#[derive(Debug)]
pub enum Outcome {
    /// The object of an answer.
    Object(Vec<u8>),
    /// Whether a login is admitted.
    Admit(bool),
    /// An HTTP answer, as it is sent.
    Page(Vec<u8>),
    Nothing,
}

/// Nesting and size of a message were limited where it came in; its structure is checked here.
fn limits() -> proto::Limits {
    proto::Limits { max_message_bytes: u64::MAX, max_decompressed_bytes: u64::MAX, ..proto::Limits::default() }
}

fn decoded(body: &[u8], endian: Endian) -> Result<Value, QError> {
    let bad = |error: DecodeError| {
        metrics::refused_by(&error, Limit::message_bytes);
        QError::with(error.term(), error.to_string())
    };
    let (view, _) = View::parse(body, endian, &limits()).map_err(bad)?;
    from_view(&view)
}

fn encoded(result: &Value) -> Result<Vec<u8>, QError> {
    let mut object = Vec::new();
    let mut writer = Writer::new(&mut object);
    to_wire(result, &mut writer)?;
    writer.finish().map_err(|error| QError::with("limit", error.to_string()))?;
    Ok(object)
}

/// On whose behalf a job is evaluated. What a client has sent runs with the client's rights, also inside a handler; an event
/// of the process's own, with no expression of a client's in it, with its owner's.
pub fn asker(job: &Job, scope: &NodeScope) -> Asker {
    let handle = job.conn.map_or(0, |conn| conn.handle());
    let (handle, remote) = match &job.task {
        Task::Message { .. } | Task::Web { .. } | Task::Page { .. } => (handle, true),
        Task::Opened { .. } | Task::Login { .. } => (handle, false),
        Task::Closed { .. } | Task::Timer | Task::Exit => (0, false),
    };
    let request = match &job.task {
        Task::Message { request, .. } => *request,
        _ => None,
    };
    let (user, address) = job.peer.as_ref().map_or((Vec::new(), 0), |peer| (peer.user.clone(), peer.z_a()));
    let grants = scope.rules.grants;
    let owner = if remote { job.conn.map_or(0, |conn| conn.number()) } else { 0 };
    Asker { caller: Caller { handle, user, address, remote, grants }, request, owner }
}

/// Evaluates a job.
///
/// # Errors
/// By kdb+'s names: of the message (`badmsg`, `limit`), of the evaluation, or of a result that cannot travel.
pub fn evaluate(host: &mut dyn Host, scope: &NodeScope, job: &Job, limits: &Limits) -> Result<Outcome, QError> {
    let mut call = |handler: Handler, arguments: &[Value]| match scope.handler(handler) {
        Some(f) => apply(host, &f, arguments, limits).map(Some),
        None => Ok(None),
    };
    let handle = || Value::Int(job.conn.map_or(0, |conn| conn.handle()));
    match &job.task {
        Task::Message { request, body, endian } => {
            let message = scope.rules.admitted(decoded(body, *endian)?)?;
            let handler = if request.is_some() { Handler::Get } else { Handler::Set };
            let result = match call(handler, std::slice::from_ref(&message))? {
                Some(result) => result,
                None => eval_message(host, &message, limits)?,
            };
            encoded(&result).map(Outcome::Object)
        }
        Task::Login { user, password } => {
            let user = symbol::intern(user).map_err(|_| QError::named("limit"))?;
            let admitted = call(Handler::Login, &[Value::Sym(user), Value::chars(&password[..])])?;
            Ok(Outcome::Admit(matches!(admitted, None | Some(Value::Bool(true)))))
        }
        Task::Opened { web } => {
            call(if *web { Handler::WebOpened } else { Handler::Opened }, &[handle()])?;
            Ok(Outcome::Nothing)
        }
        Task::Closed { web } => {
            let handler = if *web { Handler::WebClosed } else { Handler::Closed };
            call(handler, &[handle()])?;
            Ok(Outcome::Nothing)
        }
        Task::Timer => {
            call(Handler::Timer, &[Value::Timestamp(now_ns())])?;
            Ok(Outcome::Nothing)
        }
        Task::Exit => {
            call(Handler::Exit, &[Value::Int(0)])?;
            Ok(Outcome::Nothing)
        }
        Task::Web { is_text, payload } => {
            let message = match is_text {
                true => Value::chars(&payload[..]),
                false => Items::Byte(payload.clone().into()).into(),
            };
            call(Handler::Web, &[message])?;
            Ok(Outcome::Nothing)
        }
        Task::Page { text, fields, is_post } => {
            let handler = if *is_post { Handler::Post } else { Handler::Page };
            let page = call(handler, &[Value::list(vec![Value::chars(&text[..]), header(fields)?])])?;
            let page = page.ok_or(QError::with("nyi", "no handler for pages"))?;
            Ok(Outcome::Page(page.as_text().ok_or(QError::with("type", "a page is text"))?.to_vec()))
        }
    }
}

/// The fields of a request's header, by name.
fn header(fields: &[(Vec<u8>, Vec<u8>)]) -> Result<Value, QError> {
    let name = |text: &[u8]| symbol::intern(text).map_err(|_| QError::named("limit"));
    let names: Vec<Sym> = fields.iter().map(|(field, _)| name(field)).collect::<Result<_, _>>()?;
    let values = fields.iter().map(|(_, value)| Value::chars(&value[..])).collect();
    Ok(Value::dict(Value::symbols(names), Value::list(values)))
}

/// The moment, in nanoseconds from 2000.01.01 UTC.
fn now_ns() -> i64 {
    const EPOCH_NS: i64 = 946_684_800_000_000_000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(EPOCH_NS)
}
