//! `--node-fleet`: where a tickerplant requests the first nodes of its queues, and for which groups.

use super::address::Address;
use std::fmt;
use std::str::FromStr;

/// Group of `elastick fleet` if none is named.
const GROUP: &str = "rdb";
/// Maximum number of groups, each with a connection of its own.
const MAX_GROUPS: usize = 32;

/// A fleet, and the groups whose first nodes are requested there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFleet {
    pub place: NodeFleetPlace,
    /// At least one, no two of the same name.
    pub groups: Vec<String>,
}

/// Back end of a [`NodeFleet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeFleetPlace {
    /// The supervisor (`elastick fleet`) at this address.
    Supervisor(Address),
    /// Auto Scaling groups of this region.
    Aws,
}

/// When a cluster has its first node of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// Nodes are there when somebody or a schedule starts them, and the live one stays over the end of the day.
    #[default]
    Schedule,
    /// All nodes end with the day; the first update of the next day requests the first node.
    FirstUpdate,
    /// All nodes end with the day; the trading calendar says when the first node is requested, or an earlier update does.
    Calendar,
    /// All nodes end with the day; the first call that announces queries requests as many nodes as the day's log needs.
    FirstQuery,
}

/// Parses a fleet of nodes.
pub fn node_fleet(text: &str) -> Result<NodeFleet, String> {
    text.parse()
}

/// Parses when a cluster has its first node.
pub fn wake(text: &str) -> Result<Wake, String> {
    match text {
        "schedule" => Ok(Wake::Schedule),
        "first-update" => Ok(Wake::FirstUpdate),
        "first-query" => Ok(Wake::FirstQuery),
        "calendar" => Ok(Wake::Calendar),
        _ => Err(format!("{text:?}: use schedule, first-update, first-query or calendar")),
    }
}

impl FromStr for NodeFleet {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeFleet, String> {
        let forms = "use HOST:PORT/GROUP[,GROUP...] of an elastick fleet, or aws:GROUP[,GROUP...]";
        let (place, groups) = match text.trim().strip_prefix("aws:") {
            Some(groups) => (NodeFleetPlace::Aws, groups),
            None => {
                let (address, groups) = text.trim().split_once('/').unwrap_or((text.trim(), GROUP));
                let address = address.parse().map_err(|error: String| format!("{text:?}: {error}; {forms}"))?;
                (NodeFleetPlace::Supervisor(address), groups)
            }
        };
        let groups: Vec<String> = groups.split(',').map(|group| group.trim().to_string()).collect();
        if groups.iter().any(String::is_empty) {
            return Err(format!("{text:?} names no group; {forms}"));
        }
        if groups.len() > MAX_GROUPS {
            return Err(format!("{text:?} has more than {MAX_GROUPS} groups"));
        }
        let mut sorted = groups.clone();
        sorted.sort_unstable();
        match sorted.array_windows().find(|[one, other]| one == other) {
            Some([twice, _]) => Err(format!("{text:?} names the group {twice} twice")),
            None => Ok(NodeFleet { place, groups }),
        }
    }
}

impl fmt::Display for NodeFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.groups.join(",");
        match &self.place {
            NodeFleetPlace::Supervisor(address) => write!(f, "{address}/{groups}"),
            NodeFleetPlace::Aws => write!(f, "aws:{groups}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        text.parse::<NodeFleet>().map(|fleet| fleet.to_string())
    }

    #[test]
    fn a_supervisor_has_one_group_by_default_and_aws_has_those_named() {
        assert_eq!(shown(":5009").as_deref(), Ok("localhost:5009/rdb"));
        assert_eq!(shown("fleet:5009/rdb,hot").as_deref(), Ok("fleet:5009/rdb,hot"));
        assert_eq!(shown("aws:prod-RdbASG").as_deref(), Ok("aws:prod-RdbASG"));
    }

    #[test]
    fn a_bad_fleet_is_rejected_with_the_forms_there_are() {
        for (text, words) in [
            ("aws:", "names no group; use HOST:PORT/GROUP"),
            (":5009/", "names no group"),
            ("aws", "use HOST:PORT/GROUP"),
            (":5009/a,a", "the group a twice"),
        ] {
            let error = shown(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
