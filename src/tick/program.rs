//! q files given to the tickerplant: functions and variables for its clients, and message handlers.
//!
//! `.z.pg` and `.z.ps` get every message but those between tickerplant and node, as in kdb+: where `.z.ps` is defined, updates pass through
//! it. Handlers and `.z.ts` run on the query threads, `.z.pw` on its own thread.

use super::core::Tables;
use super::evaluation::{Bounds, Query, Work, query_refused};
use super::globals::Globals;
use super::host::QueryHost;
use super::users::Space;
use super::worker::Worker;
use crate::access::member::CLUSTER_USER;
use crate::config::Limit;
use crate::env::Spawner;
use crate::log::Waker;
use crate::net::ConnId;
use crate::q::startup::Startup;
use crate::q::{self, Caller, Console, Host, QError};
use crate::table::{Sym, Value, symbol};
use proto::Limits;
use std::io;
use std::sync::Arc;

const HANDLERS: [&[u8]; 3] = [b".z.pg", b".z.ps", b".z.pw"];

/// Result of the start-up files.
#[derive(Default)]
pub struct Definitions {
    /// Names and values.
    pub globals: Vec<(Sym, Value)>,
    /// Timer function and its interval in milliseconds.
    pub timer: Option<(Value, u64)>,
    /// `\c` and `\P`.
    pub console: Console,
}

/// Returns the definitions of the files.
///
/// # Errors
/// A name that belongs to the tickerplant, described.
pub fn defined(mut startup: Startup, tables: &Tables) -> Result<Definitions, String> {
    // A client's call of `.z.ts` keeps its meaning of kdb+tick: publish the rows of batch mode.
    let at = startup.globals.iter().position(|(name, _)| symbol::text(*name) == b".z.ts");
    let timer = at.map(|at| startup.globals.remove(at).1).map(|function| (function, startup.timer_ms));
    for (name, _) in &startup.globals {
        let text = symbol::text(*name);
        if text.starts_with(b".z.") && !HANDLERS.contains(&text) {
            return Err(format!(
                "handler {} is not supported by the tickerplant, only .z.pg .z.ps .z.pw .z.ts",
                text.escape_ascii()
            ));
        }
        if text == b"upd" {
            return Err("the start-up files define upd, which the tickerplant never calls: it checks, logs and \
                        publishes updates itself. To process each update, subscribe from a separate process \
                        (.u.sub); a feed publishes with .u.upd"
                .to_string());
        }
        if text.starts_with(b".u.") || tables.find(text).is_some() {
            return Err(format!("{} belongs to the tickerplant", text.escape_ascii()));
        }
    }
    let timer = timer.filter(|(_, every_ms)| *every_ms > 0);
    Ok(Definitions { globals: startup.globals, timer, console: startup.console })
}

/// Returns `.z.pg` or `.z.ps`, if it is set.
pub fn handler(host: &dyn Host, is_sync: bool) -> Option<Value> {
    host.global(symbol::find(if is_sync { b".z.pg" } else { b".z.ps" })?)
}

/// A login to be decided by `.z.pw`.
pub struct Login {
    conn: ConnId,
    user: Vec<u8>,
    password: Vec<u8>,
    globals: Arc<Globals>,
}

/// Thread that decides logins.
pub struct Logins(Worker<Login, (ConnId, bool)>);

impl Logins {
    /// Starts the thread if `.z.pw` is set.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(spawner: &dyn Spawner, globals: &Globals, bounds: Bounds, waker: Waker) -> io::Result<Option<Logins>> {
        if symbol::find(b".z.pw").is_none_or(|name| globals.get(Space::SHARED, name).is_none()) {
            return Ok(None);
        }
        let work = move || {
            move |login: Login| {
                let admitted = decide(&login, bounds);
                if let Err(error) = &admitted {
                    query_refused(error, Limit::handler_time_ns);
                    tracing::warn!(user = %login.user.escape_ascii(), %error, ".z.pw failed");
                }
                (login.conn, admitted.unwrap_or(false))
            }
        };
        Worker::start(spawner, "logins", (1, false), waker, work).map(|worker| Some(Logins(worker)))
    }

    /// Submits a login to be decided.
    pub fn submit(&self, conn: ConnId, user: &[u8], password: &[u8], globals: Arc<Globals>) {
        self.0.submit(Login { conn, user: user.to_vec(), password: password.to_vec(), globals });
    }

    /// Returns a decided login, if there is one.
    pub fn decided(&self) -> Option<(ConnId, bool)> {
        self.0.result()
    }
}

/// Whether a user is decided on by the proof that it is a node, and not by the owner's `.z.pw`, which knows users.
pub fn is_cluster(user: &[u8], has_secret: bool) -> bool {
    has_secret && user == CLUSTER_USER.as_bytes()
}

fn decide(login: &Login, bounds: Bounds) -> Result<bool, QError> {
    let caller = Caller { handle: login.conn.handle(), user: login.user.clone(), ..Caller::default() };
    // It has no variables of `.u`, and no part of its result depends on its calls.
    let query = Query::new(None, Work::Message(Vec::new()), caller, Arc::default(), Arc::default());
    let mut host = QueryHost::new(&query, Arc::clone(&login.globals), true, &Limits::default()).of_owner();
    let name = symbol::find(b".z.pw").ok_or(QError::named("access"))?;
    let f = host.global(name).ok_or(QError::named("access"))?;
    let user = symbol::intern_name(&login.user).map_err(QError::from)?;
    let admitted =
        q::apply(&mut host, &f, &[Value::Sym(user), Value::chars(&login.password[..])], &bounds.limits(None))?;
    Ok(matches!(admitted, Value::Bool(true)))
}
