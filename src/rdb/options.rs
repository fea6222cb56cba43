//! Validated options of a node.

use super::ingest::reading::{self, Read};
use super::policy::{Params, ThresholdError};
use crate::access::FileError;
use crate::access::member::{CLUSTER_USER, ClusterSecret};
use crate::audit::AuditOptions;
use crate::config::options::{self, Protocol};
use crate::config::{Address, Addresses, ConfigError, Limits, Listen, Settings, login};
use crate::net::sites::Sites;
use crate::protocol::Filter;
use std::path::PathBuf;
use std::time::Duration;

/// Time to leave if neither the fleet nor an option sets one; a spot instance has two minutes.
pub const LEAVE_WITHIN: Duration = Duration::from_secs(90);

/// Options of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    pub tickerplant: Addresses,
    /// The tickerplant's protocol; `Auto` detects it.
    pub protocol: Protocol,
    pub listen: Listen,
    /// Name of the node; `None` for one made of host and process id.
    pub node: Option<String>,
    /// Name of the queue; `None` for the fleet's group.
    pub queue: Option<String>,
    pub subscription: Filter,
    /// Memory budget; `None` for the memory of the server or container.
    pub memory_bytes: Option<u64>,
    pub policy: Params,
    /// Time to hand off windows when asked to end; `None` if not configured.
    pub leave_within: Option<Duration>,
    pub query_threads: usize,
    pub query_time: Duration,
    pub users: Option<PathBuf>,
    /// The secret that this node proves to know when it joins.
    pub cluster_secret: Option<ClusterSecret>,
    /// Without users, serve other machines as well.
    pub open: bool,
    /// Time after which a launched instance that has not joined is replaced.
    pub launch_timeout: Duration,
    /// Metrics and health pages need no password.
    pub metrics_open: bool,
    /// Web pages that may send requests.
    pub sites: Sites,
    pub block_writes: bool,
    /// Directory of the Unix sockets; `None` for no sockets.
    pub unix_sockets: Option<PathBuf>,
    /// What clients may access, and whether they are confined to the working directory.
    pub remote_may: Vec<String>,
    pub kept_inside: bool,
    /// File that lists the functions clients may call.
    pub allow: Option<PathBuf>,
    /// q files to load at the start, in order.
    pub load: Vec<PathBuf>,
    /// System commands (`\`) to run before the files.
    pub commands: Vec<String>,
    /// Threads that one query may use.
    pub helper_threads: usize,
    /// How the node reads the log.
    pub read_log: Read,
    /// The audit log; `None` without one.
    pub audit: Option<AuditOptions>,
    /// The process keeps a lease in a store, under its own random id.
    pub has_owner_lease: bool,
    pub limits: Limits,
}

/// Invalid options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Thresholds(#[from] ThresholdError),
    #[error(transparent)]
    Secret(#[from] FileError),
}

impl NodeOptions {
    /// Options of a node in a simulated environment, which carries its bytes, so that it neither listens nor connects.
    /// It subscribes to everything and has no configured time to leave.
    pub fn carried(protocol: Protocol, memory_bytes: u64, policy: Params) -> NodeOptions {
        NodeOptions {
            tickerplant: Address { host: "tick".to_string(), port: 5010, ..Address::default() }.into(),
            protocol,
            listen: Listen { host: String::new(), first: 0, last: 0, reuse: false },
            node: None,
            queue: None,
            subscription: Filter { tables: Vec::new(), symbols: Vec::new() },
            memory_bytes: Some(memory_bytes),
            policy,
            leave_within: None,
            query_threads: 1,
            query_time: Duration::from_secs(1),
            users: None,
            cluster_secret: None,
            open: false,
            launch_timeout: Duration::from_secs(30),
            metrics_open: false,
            sites: Sites::default(),
            block_writes: false,
            unix_sockets: None,
            remote_may: Vec::new(),
            kept_inside: false,
            allow: None,
            load: Vec::new(),
            commands: Vec::new(),
            helper_threads: 0,
            read_log: reading::on_a_thread,
            audit: None,
            has_owner_lease: false,
            limits: Limits::default(),
        }
    }

    /// # Errors
    /// The invalid option, by name.
    pub fn resolve(settings: &Settings) -> Result<NodeOptions, OptionsError> {
        let limits = Limits::resolve(settings)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = usize::try_from(settings.get(&options::QUERY_THREADS)?).unwrap_or(cores);
        let memory_bytes = match settings.get(&options::MEMORY)? {
            0 => settings.get(&options::WORKSPACE)?,
            bytes => bytes,
        };
        let limit = Duration::from_nanos(limits.query_time_ns);
        let query_time = Some(settings.get(&options::QUERY_TIME)?).filter(|time| !time.is_zero());
        let query_time = query_time.map_or(limit, |time| time.min(limit));
        let access = settings.find(&options::ACCESS)?.filter(|access| access != "1").map(PathBuf::from);
        let queue = settings.find(&options::QUEUE)?.filter(|queue| !queue.is_empty());
        let cluster_secret = settings.find(&options::CLUSTER_SECRET)?;
        let cluster_secret = cluster_secret.map(|path| ClusterSecret::read(&path)).transpose()?;
        let mut tickerplant = login::tickerplant(settings)?;
        if cluster_secret.is_some() {
            tickerplant = tickerplant.map(|mut address| {
                if address.user.is_empty() {
                    address.user = CLUSTER_USER.to_string();
                }
                Ok::<_, ConfigError>(address)
            })?;
        }
        Ok(NodeOptions {
            tickerplant,
            protocol: settings.get(&options::PROTOCOL)?,
            listen: settings.get(&options::NODE_PORT)?,
            node: settings.find(&options::NODE)?,
            queue,
            subscription: Filter { tables: settings.get(&options::TABLES)?, symbols: settings.get(&options::SYMBOLS)? },
            memory_bytes: Some(memory_bytes).filter(|bytes| *bytes > 0),
            policy: Params::new(settings.get(&options::SCALE)?, settings.get(&options::ROLL_THRESHOLD)?)?,
            leave_within: settings.find(&options::LEAVE_WITHIN)?,
            query_threads: if threads == 0 { cores } else { threads },
            query_time,
            users: settings.find(&options::USERS)?.or(access),
            cluster_secret,
            open: settings.is_on(&options::OPEN)?,
            sites: Sites::resolve(settings)?,
            metrics_open: settings.is_on(&options::METRICS_OPEN)?,
            launch_timeout: settings.get(&options::LAUNCH_TIMEOUT)?,
            block_writes: settings.is_on(&options::BLOCK_WRITES)?,
            unix_sockets: Some(settings.get(&options::UNIX_SOCKETS)?).filter(|dir| !dir.is_empty()).map(PathBuf::from),
            remote_may: settings.get(&options::REMOTE_MAY)?,
            kept_inside: settings.find(&options::ACCESS)?.is_some(),
            allow: settings.find(&options::ALLOW)?,
            load: settings.get(&options::LOAD)?.into_iter().map(PathBuf::from).collect(),
            commands: Vec::new(),
            helper_threads: match settings.find(&options::HELPER_THREADS)? {
                Some(threads) => usize::try_from(threads).unwrap_or(cores),
                None => cores,
            },
            read_log: reading::on_a_thread,
            audit: None,
            has_owner_lease: false,
            limits,
        })
    }
}
