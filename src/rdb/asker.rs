//! On whose behalf a node evaluates: the client of a message, or the process itself.

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

/// Caller of an evaluation.
#[derive(Debug, Default)]
pub struct Asker {
    pub asking: Asking,
    pub request: Option<SyncRequest>,
    /// It runs on a query thread, not on one of the handlers'.
    pub is_query: bool,
    /// The user's grants, if the user may not query everything.
    pub restricted: Option<Arc<Grants>>,
    /// Owner id of the handles that it opens: a connection's number, 0 for the process itself.
    pub owner: u64,
}

impl Asker {
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

/// Returns the caller of a job. Messages of other processes run with a client's rights, even inside a handler; events
/// of the process itself, which contain no client's expression, run with the owner's.
pub fn asker(job: &Job, scope: &NodeScope) -> Asker {
    let handle = job.line.map_or(0, Line::handle);
    let (handle, remote) = match &job.event {
        HandlerEvent::Message { .. } | HandlerEvent::Web { .. } | HandlerEvent::Page(_) => (handle, true),
        HandlerEvent::Opened { .. } | HandlerEvent::Login { .. } | HandlerEvent::Authorise(_) => (handle, false),
        HandlerEvent::Closed { .. } | HandlerEvent::Timer | HandlerEvent::Exit | HandlerEvent::DayEnd { .. } => {
            (0, false)
        }
    };
    let (user, address) = job.peer.as_ref().map_or((Vec::new(), 0), |peer| (peer.user.clone(), peer.z_a()));
    let tls = job.peer.as_ref().and_then(|peer| peer.z_e());
    let grants = scope.rules.grants;
    let owner = if remote { job.line.map_or(0, Line::owner) } else { 0 };
    let restricted = job.peer.as_ref().filter(|_| remote).and_then(|peer| entitled::restriction(&peer.grants));
    let grants = if restricted.is_some() { host::Grants::default() } else { grants };
    let caller = Caller { handle, user, address, tls, remote, grants };
    let asking = Asking::new(caller, grants);
    // Arguments of a connection's handlers are its client's: its name, its password, the text of its request.
    if job.line.is_some() {
        asking.serve_caller();
    }
    Asker { asking, request: job.request, restricted, is_query: !job.is_own(), owner }
}
