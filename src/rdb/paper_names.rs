//! The names of the paper's RDB (`asg/r.q`, `asg/sub.q`, `asg/util.q`) on a node: its figures as read-only variables, three functions that
//! return figures, and for every other function an error that says what to use instead.
//!
//! A start-up file may define any of these names; its definition counts then.

use super::policy::Phase;
use super::report::Constants;
use super::shared::State;
use crate::config::units::Scale;
use crate::q::error::QError;
use crate::table::Value;
use proto::types::{NULL_FLOAT, NULL_LONG};

/// Figures, with what each is here.
pub const FIGURES: [(&str, &str); 9] = [
    (".sub.i", "index of the next update that the node expects, or the end of its last window"),
    (".sub.start", "first update of the node's open window; null if it is not live"),
    (".sub.live", "whether the node is live"),
    (".sub.rolled", "whether the node has rolled"),
    (".sub.scaled", "whether the live node has requested its successor"),
    (".sub.scaleThreshold", "memory in per cent at which a successor is requested; null under --scale auto"),
    (".sub.rollThreshold", "memory in per cent at which the node rolls"),
    (".aws.instanceId", "name of the node's instance in its fleet"),
    (".aws.groupName", "group of the node's instance; empty without a fleet"),
];

/// What a function of the paper does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Memory in use, per cent of the node's limit.
    MemoryUse,
    InstanceId,
    GroupName,
    /// Rejected; the text says what to use instead.
    Rejected(&'static str),
}

/// Functions: name, number of parameters, effect.
const FUNCTIONS: [(&str, u8, Does); 18] = [
    (".util.getMemUsage", 0, Does::MemoryUse),
    (".util.aws.getInstanceId", 0, Does::InstanceId),
    (".util.aws.getGroupName", 1, Does::GroupName),
    (".sub.roll", 0, Does::Rejected("a node rolls by itself at --roll-threshold; SIGTERM drains it")),
    (".sub.rep", 3, Does::Rejected("a node replays the log by itself when it becomes live")),
    (".sub.replayUpd", 2, Does::Rejected("a node replays the log by itself when it becomes live")),
    (
        ".sub.upd",
        2,
        Does::Rejected("only the tickerplant's updates change the tables: publish with .u.upd on the tickerplant"),
    ),
    (".sub.end", 1, Does::Rejected("the tickerplant ends the day; define .u.end in a start-up file to save it")),
    (
        ".sub.clear",
        1,
        Does::Rejected(
            "the rows of a day go at its end; after an intraday write-down call .u.asg.written[date;i] on the tickerplant",
        ),
    ),
    (".sub.monitorMemory", 0, Does::Rejected("a node watches its memory by itself: see .rdb.stats")),
    (
        ".util.aws.scale",
        1,
        Does::Rejected(
            "a live node requests its successor by itself, at --scale; `elastick fleet status` shows the group",
        ),
    ),
    (".util.aws.setDesiredCapacity", 2, Does::Rejected("use .fleet.set of `elastick fleet`, or the AWS CLI")),
    (".util.aws.getDesiredCapacity", 1, Does::Rejected("`elastick fleet status` shows it")),
    (".util.aws.describeASG", 1, Does::Rejected("`elastick fleet status` shows the group")),
    (".util.aws.describeInstance", 1, Does::Rejected("`elastick fleet status` shows the instances")),
    (".util.aws.terminate", 1, Does::Rejected("a node ends with its day by itself; SIGTERM drains it")),
    (".util.sys.runSafe", 1, Does::Rejected("use system in a start-up file; clients need --remote-may system")),
    (".util.sys.runWithRetry", 1, Does::Rejected("use system in a start-up file; clients need --remote-may system")),
];

/// Whether this is a read-only figure.
pub fn is_figure(name: &[u8]) -> bool {
    FIGURES.iter().any(|(own, _)| own.as_bytes() == name)
}

/// Returns a figure; `None` for another name.
pub fn figure(name: &[u8], state: &State, constants: &Constants) -> Option<Value> {
    if !is_figure(name) {
        return None;
    }
    let index =
        |value: Option<u64>| Value::Long(value.map_or(NULL_LONG, |value| i64::try_from(value).unwrap_or(i64::MAX)));
    let open = state.windows.iter().find(|shown| shown.open);
    Some(match name {
        b".sub.i" => index(state.next.or_else(|| state.windows.iter().map(|shown| shown.window.next).max())),
        b".sub.start" => index(open.map(|shown| shown.window.first)),
        b".sub.live" => Value::Bool(state.phase == Phase::Live),
        b".sub.rolled" => Value::Bool(state.phase == Phase::Rolled),
        b".sub.scaled" => Value::Bool(state.scaled),
        b".sub.scaleThreshold" => Value::Float(match constants.policy.scale() {
            Scale::At(percent) => percent,
            Scale::Auto => NULL_FLOAT,
        }),
        b".sub.rollThreshold" => Value::Float(constants.policy.roll_percent()),
        b".aws.instanceId" => Value::chars(constants.instance.as_str()),
        _ => Value::chars(constants.group.as_str()),
    })
}

/// Returns the number of parameters of a function of the paper.
pub fn arity(name: &[u8]) -> Option<u8> {
    FUNCTIONS.iter().find(|(own, ..)| own.as_bytes() == name).map(|(_, arity, _)| *arity)
}

/// Calls a function of the paper.
///
/// # Errors
/// `nyi` with what to use instead; the name for one that is unknown.
pub fn call(name: &[u8], state: &State, constants: &Constants) -> Result<Value, QError> {
    let does = FUNCTIONS.iter().find(|(own, ..)| own.as_bytes() == name).map(|(_, _, does)| *does);
    match does {
        Some(Does::MemoryUse) => Ok(Value::Float(state.memory_percent.unwrap_or(NULL_FLOAT))),
        Some(Does::InstanceId) => Ok(Value::chars(constants.instance.as_str())),
        Some(Does::GroupName) => Ok(Value::chars(constants.group.as_str())),
        Some(Does::Rejected(instead)) => {
            Err(QError::with("nyi", format!("{}: {instead}", String::from_utf8_lossy(name))))
        }
        None => Err(QError::signal(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::policy::Params;
    use crate::rdb::shared::ShownWindow;
    use crate::rdb::windows::Window;
    use crate::table::Sym;

    fn constants() -> Constants {
        let (instance, group) = ("i-1".to_string(), "g".to_string());
        Constants {
            node: Sym::NULL,
            queue: Sym::NULL,
            port: 0,
            policy: Params::new(Scale::Auto, 85.0).expect("valid"),
            instance,
            group,
        }
    }

    #[test]
    fn every_figure_has_a_value_and_every_function_answers() {
        let (state, constants) = (State::default(), constants());
        for (name, _) in FIGURES {
            assert!(figure(name.as_bytes(), &state, &constants).is_some(), "{name}");
            assert_eq!(arity(name.as_bytes()), None, "{name} is no function");
        }
        for (name, ..) in FUNCTIONS {
            assert!(!is_figure(name.as_bytes()), "{name} is no figure");
            if let Err(error) = call(name.as_bytes(), &state, &constants) {
                assert_eq!(error.name.as_ref(), b"nyi", "{name}: {error}");
            }
        }
        assert!(figure(b".sub.x", &state, &constants).is_none());
    }

    #[test]
    fn a_rolled_nodes_count_is_the_end_of_its_last_window() {
        let shown = |first, next, open| ShownWindow { window: Window { next, ..Window::new(first, &[]) }, open };
        let windows = [shown(3, 8, false), shown(10, 12, true)];
        let state = State { windows: windows.into(), ..State::default() };
        assert!(matches!(figure(b".sub.i", &state, &constants()), Some(Value::Long(12))));
        assert!(matches!(figure(b".sub.start", &state, &constants()), Some(Value::Long(10))));
        let state = State { next: Some(20), ..state };
        assert!(matches!(figure(b".sub.i", &state, &constants()), Some(Value::Long(20))));
    }
}
