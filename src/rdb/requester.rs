//! The requester of an evaluation, whose rights it has: the client of a message, or the process itself.

use super::entitled;
use super::pool::{Job, Line};
use super::report::Shown;
use super::scope::NodeScope;
use crate::access::{Grants, Rows};
use crate::net::SyncRequest;
use crate::q::guard::Asking;
use crate::q::handlers::HandlerEvent;
use crate::q::host::{self, Caller};
use crate::table::{Sym, symbol};
use std::sync::Arc;

/// Owner id of handles that code of the owner has opened.
const OWNER: u64 = 0;

/// Caller of an evaluation.
#[derive(Debug, Default)]
pub struct Requester {
    pub asking: Asking,
    pub request: Option<SyncRequest>,
    /// It runs on a query thread, not on one of the handlers'.
    pub is_query: bool,
    /// The user's grants, if the user may not query everything.
    pub restricted: Option<Arc<Grants>>,
    /// A message on a connection that code of the owner has opened, as a gateway's to its workers: it may answer any client's deferred
    /// request.
    pub is_callback: bool,
    /// Owner id of the handles that it opens: a connection's number, or [`OWNER`].
    pub owner: u64,
}

impl Requester {
    /// Whether the caller sees the node's figures of all rows.
    pub(super) fn sees_figures(&self) -> bool {
        self.restricted.as_ref().is_none_or(|grants| grants.operator)
    }

    /// What a caller may see of a table.
    pub(super) fn shows(&self, table: Sym) -> Shown {
        match &self.restricted {
            None => Shown::All,
            Some(grants) => match grants.query.of(symbol::text(table)) {
                Some(Rows::All) => Shown::All,
                Some(Rows::Where(_)) => Shown::Rows,
                None => Shown::No,
            },
        }
    }
}

/// Returns the caller of a job. A message, also one that the owner's handler gets, runs with its sender's rights. Events of the process (a login, a
/// timer) run with the owner's: they evaluate no expression of a client.
pub fn requester(job: &Job, scope: &NodeScope) -> Requester {
    let handle = job.line.map_or(0, Line::handle);
    let (handle, remote) = match &job.event {
        HandlerEvent::Message { .. } | HandlerEvent::Web { .. } | HandlerEvent::Page(_) => (handle, true),
        HandlerEvent::Opened { .. } | HandlerEvent::Login { .. } | HandlerEvent::Authorise(_) => (handle, false),
        HandlerEvent::Closed { .. } | HandlerEvent::Timer | HandlerEvent::Exit | HandlerEvent::DayEnd { .. } => {
            (0, false)
        }
    };
    let (user, address) = match &job.event {
        // Nobody has confirmed the name yet.
        HandlerEvent::Login { address, .. } => (Vec::new(), *address),
        _ => job.peer.as_ref().map_or((Vec::new(), 0), |peer| (peer.user.clone(), peer.z_a())),
    };
    let tls = job.peer.as_ref().and_then(|peer| peer.z_e());
    let grants = scope.rules.grants;
    let owner = if remote { job.line.map_or(0, Line::owner) } else { 0 };
    let restricted = job.peer.as_ref().filter(|_| remote).and_then(|peer| entitled::restriction(&peer.grants));
    let is_callback = match job.line {
        Some(Line::Opened(handle)) => scope.handles.owner_of(handle) == Some(OWNER),
        _ => false,
    };
    let mut caller = Caller { handle, user, address, tls, remote, grants };
    let asking = match &restricted {
        None => Asking::new(caller, grants),
        Some(_) => {
            caller.grants = host::Grants::default();
            Asking::of_restricted(caller)
        }
    };
    // What a connection's handlers get as arguments comes from its client: the user's name, the password, the request.
    if job.line.is_some() {
        asking.serve_caller();
    }
    Requester { asking, request: job.request, restricted, is_query: !job.is_own(), is_callback, owner }
}
