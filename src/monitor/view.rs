//! A cluster at one moment, as it is drawn.

/// Hours on the axis of a day.
pub const DAY_HOURS: usize = 24;

/// What a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// Asked for, or running and not in the queue yet.
    Starting,
    Waiting,
    Live,
    /// Reads a window again that another node lost.
    Rebuilding,
    Rolled,
    /// Known to the queue, but not connected.
    Away,
    /// Told to end.
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

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    pub name: String,
    pub state: NodeState,
    /// Share of its memory in use, none before it said so.
    pub memory_percent: Option<f64>,
    /// Its window of updates, open while it is live.
    pub window: Option<(u64, Option<u64>)>,
    pub rows: u64,
    /// Updates that it has yet to take in.
    pub behind: u64,
    /// Whether its window was proved equal to the log's, none while that is not known.
    pub verified: Option<bool>,
}

/// Capacity and use at one time of the day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How much of the day has passed, 0 to 1.
    pub day_share: f64,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub nodes: u32,
}

/// What one node did from when to when, as shares of the day.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub state: NodeState,
    pub from: f64,
    pub to: f64,
}

/// A node's whole life, for the picture.
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
    /// Updates that survive a power cut; none where the tickerplant does not say.
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
    /// What the nodes cost so far, in hours of one node of the simulated day.
    pub node_hours: f64,
    /// What one server big enough for the day cost until now, in the same unit; 0 while the day's size is not known.
    pub big_server_hours: f64,
    pub note: String,
}
