//! What the tickerplant records in the audit log: calls of `.u`, queries, and sums of what is published.

use super::TickService;
use crate::audit::{Audit, Call, Entry, Shown, Ticket, Who, readable};
use crate::net::{ConnId, Links};
use crate::q::QError;
use crate::tick::plant::calls::{Called, Caller};
use crate::tick::plant::functions::{self, Function, Row};
use proto::{View, Writer, types};

/// Tables named in one record.
const MAX_TABLES: usize = 64;

impl TickService {
    /// Sets the audit log.
    pub fn set_audit(&mut self, audit: Audit) {
        if audit.is_on() {
            self.plant.sum_published();
        }
        self.audit = audit;
    }

    /// Calls a function of `.u` and records it.
    ///
    /// # Errors
    /// Those of the function; with `--audit-required`, that the call cannot be recorded.
    pub(super) fn audited_call(
        &mut self,
        name: &[u8],
        args: &[View<'_>],
        caller: Caller,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<Called, QError> {
        let row = functions::find(name).filter(|row| self.audit.is_on() && row.is_audited());
        let Some(row) = row else { return self.plant.call(name, args, caller, writer, ctl) };
        let begun = self.audit.begin(|| who(caller.conn, ctl), || call(row, args));
        let ticket = match begun {
            Ok(ticket) => ticket,
            Err(_) if row.is_exempt() => {
                let result = self.plant.call(name, args, caller, writer, ctl);
                let entry = || Entry::new(who(caller.conn, ctl), call(row, args)).failed(text(&result));
                self.audit.record(entry);
                return result;
            }
            Err(error) => return Err(error),
        };
        let result = self.plant.call(name, args, caller, writer, ctl);
        if let Some(ticket) = ticket {
            ticket.end(Some(text(&result)), 0);
        }
        result
    }

    pub(super) fn audit_call_refused(
        &self,
        row: &Row,
        args: &[View<'_>],
        conn: ConnId,
        error: &QError,
        ctl: &dyn Links,
    ) {
        if row.is_audited() {
            self.audit.record(|| Entry::new(who(conn, ctl), call(row, args)).failed(error.to_string()));
        }
    }

    /// Begins the record of a query.
    ///
    /// # Errors
    /// With `--audit-required`: the query cannot be recorded.
    pub(super) fn audit_query(&self, view: &View<'_>, conn: ConnId, ctl: &dyn Links) -> Result<Option<Ticket>, QError> {
        self.audit.begin(|| who(conn, ctl), || self.query_call(view))
    }

    pub(super) fn audit_query_refused(&self, view: &View<'_>, conn: ConnId, error: &QError, ctl: &dyn Links) {
        self.audit.record(|| Entry::new(who(conn, ctl), self.query_call(view)).failed(error.to_string()));
    }

    fn query_call(&self, view: &View<'_>) -> Call {
        let shown = self.audit.showing().map_or(Shown::None, |showing| showing.message(view));
        Call { shown, bytes_in: view.raw().len() as u64, ..Call::named("query") }
    }

    /// Records what connections have published: one that has closed, or all. Those of open connections can wait as sums.
    pub(super) fn record_sums(&mut self, closed: Option<ConnId>) {
        if closed.is_none() && self.audit.is_congested() {
            return self.plant.postpone_sums();
        }
        for entry in self.plant.take_sums(closed) {
            self.audit.record_admitted(|| entry);
        }
    }
}

fn who(conn: ConnId, ctl: &dyn Links) -> Who {
    ctl.peer(conn).map(|peer| peer.who(conn)).unwrap_or_default()
}

fn text<T>(result: &Result<T, QError>) -> String {
    result.as_ref().err().map(ToString::to_string).unwrap_or_default()
}

/// The record of a call. Of its arguments it has the tables: others may be proofs of a secret.
fn call(row: &Row, args: &[View<'_>]) -> Call {
    let named = matches!(
        row.function,
        Function::Sub
            | Function::Add
            | Function::SubInner
            | Function::Del
            | Function::Schema
            | Function::QueueSubscribe
    );
    let tables = args.first().filter(|_| named).map(names).unwrap_or_default();
    let bytes_in = args.iter().map(|arg| arg.raw().len() as u64).sum();
    Call { tables, bytes_in, ..Call::named(row.name) }
}

fn names(view: &View<'_>) -> Vec<String> {
    let symbols = view.vector().filter(|vector| vector.ty == types::SYMBOL);
    let many = symbols.into_iter().flat_map(|vector| vector.symbols().collect::<Vec<_>>());
    view.text().into_iter().chain(many).take(MAX_TABLES).map(|name| readable(name.get(..256).unwrap_or(name))).collect()
}
