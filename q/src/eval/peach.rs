//! `peach` and each-parallel: distributes items over threads or processes, with the results of `each`. The error is that of the
//! first item that fails, or of the process that is the first to fail.

use crate::io::environment::may_send;
use crate::runtime::console::Console;
use crate::runtime::context::Context;
use crate::runtime::delegated::reads_of_host;
use crate::runtime::error::{Origin, QError};
use crate::runtime::host::{Caller, Host, NEEDS_OWNER, Setting, Threads};
use crate::runtime::limits::Allowance;
use crate::runtime::threads;
use crate::runtime::values::Result;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use columns::sys::shared::Shared;
use columns::table::{Attr, Items, Sym, Value, Vector};

/// Returns the results of `f` on every item of a list from several threads; `None` if `each` must be used.
pub(super) fn by_threads(context: &mut Context, f: &Value, x: &Value) -> Option<Result> {
    // `each` looks up lists used as functions.
    let is_function = matches!(f, Value::Func(_));
    let helps = is_function && !x.is_scalar() && x.count() > 1 && context.allowance.threads() > 1;
    let shared = context.host.shared().filter(|_| helps)?;
    Some(results(context, shared, f, x).and_then(|all| gathered(context, all)))
}

/// Returns the results of `f` on every item of a list from the processes whose handles `.z.pd` gives: `-s -N`. `None` if `each` must be used:
/// for one item, without `.z.pd`, in `reval`, and for a caller that may not send on those handles.
pub(super) fn by_processes(context: &mut Context, f: &Value, x: &Value) -> Option<Result> {
    if context.host.threads().processes == 0
        || context.host.is_read_only()
        || !matches!(f, Value::Func(_))
        || x.is_scalar()
        || x.count() < 2
    {
        return None;
    }
    let given = context.host.global(prims::name(".z.pd"))?;
    match handles(context, given) {
        Ok(handles) if handles.is_empty() => None,
        Ok(handles) if handles.iter().any(|handle| !may_send(context, i64::from(*handle))) => None,
        Ok(handles) => Some(spread(context, &handles, f, x)),
        // The owner's function may do what this caller may not.
        Err(error) if &*error.name == b"access" => None,
        Err(error) => Some(Err(error)),
    }
}

/// The handles that `.z.pd` is or returns.
fn handles(context: &mut Context, given: Value) -> std::result::Result<Vec<i32>, QError> {
    let given = match given {
        Value::Func(_) => context.call1(&given, Value::Null)?,
        given => given,
    };
    match &given {
        Value::Vector(Vector { items: Items::Int(handles), attr: Attr::Unique }) => Ok(handles.to_vec()),
        Value::Vector(v) if v.is_empty() => Ok(Vec::new()),
        _ => Err(QError::with("type", ".z.pd must be, or return, a list of int handles with the attribute u")),
    }
}

fn spread(context: &mut Context, handles: &[i32], f: &Value, x: &Value) -> Result {
    context.reserve_items(x.count(), size_of::<Value>())?;
    let request = |item: usize| Value::list(vec![f.clone(), x.at(item)]);
    let allowance = context.allowance.again();
    context.host.spread(handles, x.count(), &request, &|| allowance.check()).map(Value::collapse)
}

/// Returns the values, after printing the output of each in order.
fn gathered(context: &mut Context, all: Vec<(Value, Vec<u8>)>) -> Result {
    let mut values = Vec::with_capacity(all.len());
    for (value, printed) in all {
        if !printed.is_empty() {
            context.host.print(&printed)?;
        }
        values.push(value);
    }
    Ok(Value::collapse(values))
}

/// Returns the results, each with its printed output.
fn results(
    context: &Context,
    shared: &(dyn Host + Sync),
    f: &Value,
    x: &Value,
) -> std::result::Result<Vec<(Value, Vec<u8>)>, QError> {
    context.allowance.check()?;
    let (running, callee, viewing) = (context.running.clone(), context.callee, context.viewing.clone());
    threads::run(
        &context.allowance,
        x.count(),
        |allowance| Worker { host: Helper::new(shared), allowance },
        |worker, item| {
            let mut inner = Context::within(&mut worker.host, worker.allowance.again());
            (inner.running, inner.callee, inner.viewing) = (running.clone(), callee, viewing.clone());
            inner.check()?;
            let result = inner.apply(f, vec![x.at(item)]);
            let printed = std::mem::take(&mut worker.host.printed);
            result.map(|value| (value, printed))
        },
    )
}

/// State of one thread, kept between items.
struct Worker<'a> {
    host: Helper<'a>,
    allowance: Allowance,
}

/// The host as seen by helper threads: read-only. Output is buffered for the calling thread.
struct Helper<'a> {
    host: &'a (dyn Host + Sync),
    printed: Vec<u8>,
}

impl<'a> Helper<'a> {
    fn new(host: &'a (dyn Host + Sync)) -> Helper<'a> {
        Helper { host, printed: Vec::new() }
    }
}

fn no_update() -> QError {
    QError::with("noupdate", "cannot assign inside peach")
}

fn no_socket() -> QError {
    QError::with("nosocket", "cannot use handles inside peach")
}

impl Host for Helper<'_> {
    reads_of_host!();

    fn assign(&mut self, _name: Sym, _value: Value) -> std::result::Result<(), QError> {
        Err(no_update())
    }

    fn remove(&mut self, _name: Sym) -> std::result::Result<(), QError> {
        Err(no_update())
    }

    /// Native functions of the process belong to one thread; the caller falls back to `each`.
    fn call(&mut self, _name: Sym, _arguments: &[Value]) -> Result {
        Err(NEEDS_OWNER)
    }

    fn append(&mut self, _name: Sym, _rows: &Value) -> Result {
        Err(no_update())
    }

    fn reaches_files(&self) -> bool {
        self.host.reaches_files()
    }

    fn alters(&self) -> std::result::Result<(), QError> {
        self.host.alters()
    }

    fn open(&mut self, _target: &[u8], _timeout_ms: u64) -> std::result::Result<i32, QError> {
        Err(no_socket())
    }

    fn close(&mut self, _handle: i32) -> std::result::Result<(), QError> {
        Err(no_socket())
    }

    fn send(&mut self, _handle: i64, _message: &Value) -> Result {
        Err(no_socket())
    }

    fn print(&mut self, text: &[u8]) -> std::result::Result<(), QError> {
        self.printed.extend_from_slice(text);
        Ok(())
    }
}
