//! A cluster at one moment, as input of the rendering.

/// Hours on the axis of a day.
pub const DAY_HOURS: usize = 24;

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// Requested, or running but not yet in the queue.
    Starting,
    Waiting,
    Live,
    /// Rebuilds a window that another node lost.
    Rebuilding,
    Rolled,
    /// In the queue, but not connected.
    Away,
    /// Asked to end.
    Terminating,
}

impl NodeState {
    pub const ALL: [NodeState; 7] = [
        NodeState::Starting,
        NodeState::Waiting,
        NodeState::Live,
        NodeState::Rebuilding,
        NodeState::Rolled,
        NodeState::Away,
        NodeState::Terminating,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            NodeState::Starting => "starting",
            NodeState::Waiting => "waiting",
            NodeState::Live => "live",
            NodeState::Rebuilding => "rebuilding",
            NodeState::Rolled => "rolled",
            NodeState::Away => "away",
            NodeState::Terminating => "terminating",
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    pub name: String,
    pub state: NodeState,
    /// Share of its memory in use; `None` until it reports it.
    pub memory_percent: Option<f64>,
    /// Its window of updates, open while it is live.
    pub window: Option<(u64, Option<u64>)>,
    pub rows: u64,
    /// Updates that it has not yet received.
    pub behind: u64,
    /// Whether its window was proved equal to the log; `None` while unknown.
    pub verified: Option<bool>,
}

/// Capacity and use at one time of the day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Elapsed share of the day, 0 to 1.
    pub day_share: f64,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub nodes: u32,
}

/// State of a node over a span, in shares of the day.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub state: NodeState,
    pub from: f64,
    pub to: f64,
}

/// History of a node, for the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    pub name: String,
    pub spans: Vec<Span>,
    pub window: Option<(u64, Option<u64>)>,
}

/// The whole cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    pub title: String,
    /// Time of the simulated day.
    pub day_ns: u64,
    pub elapsed_ns: u64,
    pub tip: u64,
    /// Updates that survive a power failure; `None` if the tickerplant does not report it.
    pub durable: Option<u64>,
    pub updates_per_second: f64,
    pub rows_per_second: f64,
    /// Heading and rows of the queue's table.
    pub queue: (Vec<String>, Vec<Vec<String>>),
    pub nodes: Vec<NodeView>,
    pub node_memory_bytes: u64,
    pub scale_percent: Option<f64>,
    pub roll_percent: f64,
    pub samples: Vec<Sample>,
    /// Cost of the nodes so far, in node hours of the simulated day.
    pub node_hours: f64,
    /// Cost so far of one server big enough for the day, in the same unit; 0 while the day's size is unknown.
    pub big_server_hours: f64,
    pub note: String,
}
