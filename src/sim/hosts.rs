//! What processes of a simulated world are set up with, whichever world it is.

use crate::config::options::Protocol;
use crate::config::{Address, Limits, Listen};
use crate::q::Rules;
use crate::rdb::messages::Subscription;
use crate::rdb::options::NodeOptions;
use crate::rdb::policy;
use crate::tick::globals::Globals;
use crate::tick::query::Bounds;
use crate::tick::service::ServiceOptions;
use std::time::Duration;

/// A node that subscribes to everything and is told by nobody how long it may take to leave.
pub fn node_options(protocol: Protocol, budget_bytes: u64, policy: policy::Params) -> NodeOptions {
    NodeOptions {
        tickerplant: Address { host: "tick".to_string(), port: 5010, user: String::new(), password: String::new() },
        protocol,
        listen: Listen { host: String::new(), first: 0, last: 0, reuse: false },
        node: None,
        queue: None,
        subscription: Subscription { tables: Vec::new(), symbols: Vec::new() },
        memory_bytes: Some(budget_bytes),
        policy,
        leave_within: None,
        query_threads: 1,
        query_time: Duration::from_secs(1),
        users: None,
        launch_timeout: Duration::from_secs(30),
        metrics_open: false,
        block_writes: false,
        remote_may: Vec::new(),
        kept_inside: false,
        allow: None,
        load: Vec::new(),
        helper_threads: 0,
        limits: Limits::default(),
    }
}

/// A tickerplant's service. Virtual time does not pass while a query runs, so that no limit of its time is ever met.
pub fn service_options(codec: proto::Limits) -> ServiceOptions {
    let bounds = Bounds { time: Duration::from_secs(3600), memory_bytes: 64 << 20 };
    ServiceOptions {
        codec,
        globals: Globals::new(Vec::new(), 1 << 20),
        query: bounds,
        own_query: bounds,
        threads: 1,
        handler: bounds,
        rules: Rules::new(&[], false, false, None),
        timer: None,
    }
}
