//! `peach` and each-parallel: items handed to several threads, with the results, and the error, of `each`.

use super::context::Context;
use super::error::{Origin, QError};
use super::host::{Caller, Host, NEEDS_OWNER, Setting, Threads, reads_of_host};
use super::limits::Allowance;
use super::shape::Result;
use super::show::Console;
use super::threads;
use columns::sys::shared::Shared;
use columns::table::{Sym, Value};

/// `f peach x`, and `f':[x]` of a function of one argument.
pub(super) fn peach(context: &mut Context, f: &Value, x: Value) -> Result {
    if let Value::Dict(d) = &x {
        let values = peach(context, f, d.values.clone())?;
        return Ok(Value::dict(d.keys.clone(), values));
    }
    // Lists in place of a function are looked up as `each` does it.
    let is_function = matches!(f, Value::Func(_));
    let helps = is_function && !x.is_scalar() && x.count() > 1 && context.allowance.threads() > 1;
    let Some(shared) = context.host.shared().filter(|_| helps) else {
        return super::internal::derive(context, columns::table::function::Iterator::Each, f.clone(), x);
    };
    context.allowance.check()?;
    let (running, callee, viewing) = (context.running.clone(), context.callee, context.viewing.clone());
    let results = threads::run(
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
    )?;
    let mut values = Vec::with_capacity(results.len());
    for (value, printed) in results {
        if !printed.is_empty() {
            context.host.print(&printed)?;
        }
        values.push(value);
    }
    Ok(Value::collapse(values))
}

/// What one thread keeps between items.
struct Worker<'a> {
    host: Helper<'a>,
    allowance: Allowance,
}

/// The host of an evaluation as its helper threads see it: they read. What they print is kept for the thread that asked.
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
    QError::with("noupdate", "peach does not assign")
}

fn no_socket() -> QError {
    QError::with("nosocket", "peach does not use handles")
}

impl Host for Helper<'_> {
    reads_of_host!();

    fn assign(&mut self, _name: Sym, _value: Value) -> std::result::Result<(), QError> {
        Err(no_update())
    }

    fn remove(&mut self, _name: Sym) -> std::result::Result<(), QError> {
        Err(no_update())
    }

    /// The process's own functions belong to one thread; a host there is not shared, and runs this as `each`.
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

#[cfg(test)]
mod tests;
