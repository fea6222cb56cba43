//! Options of a tickerplant, and why it cannot start with them.

use super::{OwnLease, chunk_bytes, size};
use crate::access::member::ClusterSecret;
use crate::config::units::RollTime;
use crate::config::{Damage, Durability, Limits, ReplicaMissing, RequiredMount, TradingCalendar};
use crate::election::Tenure;
use crate::env::Env;
use crate::log::{LogError, LogOptions, Waker};
use crate::queue::{Date, Params};
use crate::tick::clock::Clock;
use crate::tick::day::ClockLimits;
use crate::tick::logged_schema::LoggedSchemaError;
use crate::tick::node_fleet::NodeFleet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Options of a tickerplant.
pub struct PlantOptions {
    pub src: String,
    /// Directory of the logs; `None` disables logging.
    pub dir: Option<PathBuf>,
    /// Where this process is reached, `HOST:PORT`, for clients of a passive tickerplant.
    pub address: Option<String>,
    /// URL of the lease that decides which of several tickerplants is active; `None` if this is the only one.
    pub lease: Option<String>,
    /// The lease, unless the lock of the log is.
    pub tenure: Option<Arc<Tenure>>,
    /// The same with the own copy of the log, where each tickerplant has one.
    pub copy: Option<OwnLease>,
    pub durability: Durability,
    /// Under durability `replica`: how long to wait for followers, and what happens then.
    pub replica_timeout: Duration,
    pub replica_missing: ReplicaMissing,
    pub damage: Damage,
    /// Days for which past logs are kept; `None` keeps all.
    pub keep_days: Option<u32>,
    /// Required mount of the log's directory.
    pub mount: RequiredMount,
    /// Batch mode: publishing interval.
    pub batch: Option<Duration>,
    pub roll: RollTime,
    /// Trading days, by which days end instead.
    pub calendar: Option<Arc<TradingCalendar>>,
    /// Date confirmed by the operator (`--today`).
    pub today: Option<Date>,
    /// Clients may not change data, unless a users file says so (`-b`).
    pub block_writes: bool,
    /// Values of other types are converted where nothing is lost (`--coerce`).
    pub coerce: bool,
    /// The secret that nodes must know to join; `None` if the role is enough.
    pub secret: Option<ClusterSecret>,
    pub limits: Limits,
    pub queue: Params,
    /// Fleet from which the first nodes of the groups in `queue` are requested.
    pub nodes: Option<NodeFleet>,
}

/// Why a tickerplant cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Schema(#[from] LoggedSchemaError),
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

impl PlantOptions {
    /// Returns the limits within which the wall clock is trusted.
    pub(super) fn clock_limits(&self) -> ClockLimits {
        let ns = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        let Limits { clock_jump_ns, clock_start_ns, .. } = self.limits;
        ClockLimits { jump_ns: ns(clock_jump_ns), pause_ns: ns(clock_start_ns), today: self.today }
    }

    /// Returns the clock by which its days end.
    pub(super) fn clock(&self) -> Clock {
        match &self.calendar {
            Some(calendar) => Clock::trading(Arc::clone(calendar)),
            None => Clock::new(self.roll.clone()),
        }
    }

    /// Returns the options of the log in this directory.
    ///
    /// # Errors
    /// A relative directory if the working directory cannot be read.
    pub fn log(&self, env: &Env, dir: &Path, waker: &Waker) -> io::Result<LogOptions> {
        Ok(LogOptions {
            env: env.clone(),
            dir: std::path::absolute(dir)?,
            src: self.src.clone(),
            durability: self.durability,
            damage: self.damage,
            mount: self.mount.clone(),
            epoch: None,
            address: self.address.clone(),
            limits: self.limits.codec(),
            chunk_bytes: chunk_bytes(&self.limits),
            buffer_bytes: size(self.limits.log_buffer_bytes),
            // The event loop checks the durable tip in every iteration.
            waker: Some(Arc::clone(waker)),
        })
    }
}
