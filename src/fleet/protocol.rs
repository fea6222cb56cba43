//! Calls of nodes and operators to a supervisor. They are kdb+ messages such as `(".fleet.describe"; group)`, which any
//! kdb+ client can send.
//!
//! | call | returns |
//! |---|---|
//! | ``(`.fleet.describe; `group)`` | dictionary `group min desired max lead members` |
//! | ``(`.fleet.desired; `group; n)`` | dictionary `granted desired reason` |
//! | ``(`.fleet.set; `group; n)`` | `::`, or the error why not: exactly n instances, protected ones stay |
//! | ``(`.fleet.ready; `instance)`` | `::` |
//! | ``(`.fleet.protect; `instance; 1b)`` | `::` |
//! | ``(`.fleet.notice; `instance)`` | dictionary `reason left`, the reason null without a notice |
//! | ``(`.fleet.released; `instance)`` | `::` |
//! | ``(`.fleet.leaving; `instance)`` | `::`; the instance ends on its own after a handoff, and its replacement starts now |
//! | ``(`.fleet.replace; `instance)`` | `::`; the instance ends after its notice, and a replacement starts |
//! | ``(`.fleet.terminate; `instance)`` | `::`, or the error why not |

use super::{Capacity, Description, Member, Notice, Reason, Stage};
use proto::{Items, Value, types};
use std::time::Duration;

/// A call with its group or instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Describe { group: String },
    AtLeast { group: String, desired: u32 },
    Exactly { group: String, desired: u32 },
    Ready { instance: String },
    Protect { instance: String, on: bool },
    Notice { instance: String },
    Released { instance: String },
    Leaving { instance: String },
    Replace { instance: String },
    Terminate { instance: String },
}

const DESCRIBE: &[u8] = b".fleet.describe";
const DESIRED: &[u8] = b".fleet.desired";
const SET: &[u8] = b".fleet.set";
const READY: &[u8] = b".fleet.ready";
const PROTECT: &[u8] = b".fleet.protect";
const NOTICE: &[u8] = b".fleet.notice";
const RELEASED: &[u8] = b".fleet.released";
const LEAVING: &[u8] = b".fleet.leaving";
const REPLACE: &[u8] = b".fleet.replace";
const TERMINATE: &[u8] = b".fleet.terminate";

impl Call {
    /// Encodes the call as the list that a client sends.
    pub fn encode(&self) -> Value {
        let call = |function: &[u8], name: &str| Value::list([Value::symbol(function), Value::symbol(name)]);
        let with =
            |function: &[u8], name: &str, value| Value::list([Value::symbol(function), Value::symbol(name), value]);
        match self {
            Call::Describe { group } => call(DESCRIBE, group),
            Call::AtLeast { group, desired } => with(DESIRED, group, Value::Long(i64::from(*desired))),
            Call::Exactly { group, desired } => with(SET, group, Value::Long(i64::from(*desired))),
            Call::Ready { instance } => call(READY, instance),
            Call::Protect { instance, on } => with(PROTECT, instance, Value::Bool(*on)),
            Call::Notice { instance } => call(NOTICE, instance),
            Call::Released { instance } => call(RELEASED, instance),
            Call::Leaving { instance } => call(LEAVING, instance),
            Call::Replace { instance } => call(REPLACE, instance),
            Call::Terminate { instance } => call(TERMINATE, instance),
        }
    }

    /// # Errors
    /// The message is none of the calls; the text lists them.
    pub fn decode(message: &Value) -> Result<Call, String> {
        let usage = "fleet: not a function of the fleet. For a group: (`.fleet.describe;`group), \
                     (`.fleet.desired;`group;n), (`.fleet.set;`group;n); for an instance: .fleet.ready, \
                     .fleet.protect (with a boolean), .fleet.notice, .fleet.released, .fleet.leaving, \
                     .fleet.replace, .fleet.terminate";
        // Two symbols travel as a symbol vector.
        let items: Vec<Value> = (0..message.len().min(4)).filter_map(|i| message.item(i)).collect();
        let text = |value: &Value| value.as_text().map(|text| String::from_utf8_lossy(text).into_owned());
        let [function, name, rest @ ..] = &items[..] else { return Err(usage.to_string()) };
        let (Some(function), Some(name)) = (function.as_text(), text(name)) else { return Err(usage.to_string()) };
        let number = |count: &Value| {
            let count = count.as_long().or_else(|| count.as_int().map(i64::from));
            count.and_then(|n| u32::try_from(n).ok()).ok_or("type: n must be a number of instances")
        };
        match (function, rest) {
            (DESCRIBE, []) => Ok(Call::Describe { group: name }),
            (DESIRED, [count]) => Ok(Call::AtLeast { desired: number(count)?, group: name }),
            (SET, [count]) => Ok(Call::Exactly { desired: number(count)?, group: name }),
            (READY, []) => Ok(Call::Ready { instance: name }),
            (PROTECT, [on]) => {
                Ok(Call::Protect { on: on.as_bool().ok_or("type: on must be a boolean")?, instance: name })
            }
            (NOTICE, []) => Ok(Call::Notice { instance: name }),
            (RELEASED, []) => Ok(Call::Released { instance: name }),
            (LEAVING, []) => Ok(Call::Leaving { instance: name }),
            (REPLACE, []) => Ok(Call::Replace { instance: name }),
            (TERMINATE, []) => Ok(Call::Terminate { instance: name }),
            _ => Err(usage.to_string()),
        }
    }
}

fn timespan(time: Option<Duration>) -> i64 {
    time.map_or(types::NULL_LONG, |time| i64::try_from(time.as_nanos()).unwrap_or(types::INF_LONG))
}

fn duration(ns: i64) -> Option<Duration> {
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

/// Encodes a group as a dictionary whose `members` is a table.
pub fn encode_description(description: &Description) -> Value {
    let members = &description.members;
    let symbols = |text: &dyn Fn(&Member) -> String| Value::symbols(members.iter().map(text));
    let process = |member: &Member| member.process.map_or(types::NULL_LONG, i64::from);
    let table = Value::table([
        ("instance", symbols(&|member| member.instance.clone())),
        ("stage", symbols(&|member| member.stage.name().to_string())),
        ("process", Value::longs(members.iter().map(process).collect::<Vec<_>>())),
        ("age", Value::timespans(members.iter().map(|m| timespan(Some(m.age))).collect::<Vec<_>>())),
        ("lead", Value::timespans(members.iter().map(|m| timespan(m.lead_time)).collect::<Vec<_>>())),
        ("protected", Value::bools(members.iter().map(|m| m.protected).collect::<Vec<_>>())),
    ]);
    let values = Value::list([
        Value::symbol(&description.group),
        Value::Long(i64::from(description.min)),
        Value::Long(i64::from(description.desired)),
        Value::Long(i64::from(description.max)),
        Value::Timespan(timespan(description.lead_time)),
        table,
        Value::symbol(&description.group),
        Value::Long(i64::from(description.min)),
        Value::Long(i64::from(description.max)),
    ]);
    // `group`, `min` and `max` are reserved words of q, which qSQL cannot name as columns; they remain for older nodes
    // and tools.
    let keys = ["group", "min", "desired", "max", "lead", "members", "groupName", "minSize", "maxSize"];
    Value::dict(Value::symbols(keys), values)
}

/// Returns `None` unless the value has the form of [`encode_description`].
pub fn decode_description(answer: &Value) -> Option<Description> {
    let text = |value: Value| value.as_text().map(|text| String::from_utf8_lossy(text).into_owned());
    let number = |name: &str| u32::try_from(answer.lookup(name)?.as_long()?).ok();
    let Value::Timespan(lead) = answer.lookup("lead")? else { return None };
    let table = answer.lookup("members")?;
    let spans = |name: &str| match table.column(name) {
        Some(Value::Vector { items: Items::Timespan(spans), .. }) => Some(spans.clone()),
        _ => None,
    };
    let (instances, stages) = (table.column("instance")?.as_symbols()?, table.column("stage")?.as_symbols()?);
    let (processes, ages, leads) = (table.column("process")?.as_longs()?, spans("age")?, spans("lead")?);
    let Some(Value::Vector { items: Items::Bool(protected), .. }) = table.column("protected") else { return None };
    let rows = instances.iter().zip(stages).zip(processes).zip(ages.iter().zip(&leads).zip(protected));
    let members = rows.map(|(((instance, stage), process), ((age, lead), protected))| {
        Some(Member {
            instance: String::from_utf8_lossy(instance).into_owned(),
            stage: Stage::from_name(std::str::from_utf8(stage).ok()?)?,
            process: u32::try_from(*process).ok(),
            age: duration(*age)?,
            lead_time: duration(*lead),
            protected: *protected,
        })
    });
    Some(Description {
        group: text(answer.lookup("group")?)?,
        min: number("min")?,
        desired: number("desired")?,
        max: number("max")?,
        lead_time: duration(lead),
        members: members.collect::<Option<_>>()?,
    })
}

/// Encodes the result of a request as a dictionary `granted desired reason`.
pub fn encode_capacity(capacity: &Capacity) -> Value {
    let (granted, desired, reason) = match capacity {
        Capacity::Granted { desired } => (true, desired, ""),
        Capacity::Refused { desired, reason } => (false, desired, reason.as_str()),
    };
    let values = Value::list([Value::Bool(granted), Value::Long(i64::from(*desired)), Value::chars(reason)]);
    Value::dict(Value::symbols(["granted", "desired", "reason"]), values)
}

/// Returns `None` unless the value has the form of [`encode_capacity`].
pub fn decode_capacity(answer: &Value) -> Option<Capacity> {
    let desired = u32::try_from(answer.lookup("desired")?.as_long()?).ok()?;
    if answer.lookup("granted")?.as_bool()? {
        return Some(Capacity::Granted { desired });
    }
    let reason = answer.lookup("reason")?;
    Some(Capacity::Refused { desired, reason: String::from_utf8_lossy(reason.as_text()?).into_owned() })
}

/// Encodes a notice as a dictionary `reason left`; the reason is null without a notice.
pub fn encode_notice(notice: Option<Notice>) -> Value {
    let reason = notice.map_or("", |notice| notice.reason.name());
    let left = timespan(notice.and_then(|notice| notice.left));
    Value::dict(Value::symbols(["reason", "left"]), Value::list([Value::symbol(reason), Value::Timespan(left)]))
}

/// Returns `None` unless the value has the form of [`encode_notice`].
pub fn decode_notice(answer: &Value) -> Option<Option<Notice>> {
    let reason = answer.lookup("reason")?;
    let Value::Timespan(left) = answer.lookup("left")? else { return None };
    match reason.as_text()? {
        b"" => Some(None),
        name => {
            let reason = Reason::from_name(std::str::from_utf8(name).ok()?)?;
            Some(Some(Notice { reason, left: duration(left) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Limits, decode, encode};

    /// A value after encoding and decoding.
    fn over_the_wire(value: &Value) -> Value {
        let mut bytes = Vec::new();
        encode::encode_object(value, &mut bytes).expect("it can travel");
        decode::object(&bytes, Endian::Little, &Limits::default()).expect("it can be read").0
    }

    #[test]
    fn calls_arrive_as_they_were_made() {
        for call in [
            Call::Describe { group: "rdb".into() },
            Call::AtLeast { group: "rdb".into(), desired: 3 },
            Call::Ready { instance: "rdb-1".into() },
            Call::Exactly { group: "rdb".into(), desired: 0 },
            Call::Protect { instance: "rdb-1".into(), on: true },
            Call::Notice { instance: "rdb-1".into() },
            Call::Released { instance: "rdb-1".into() },
            Call::Replace { instance: "rdb-1".into() },
            Call::Terminate { instance: "rdb-1".into() },
        ] {
            assert_eq!(Call::decode(&over_the_wire(&call.encode())), Ok(call));
        }
    }

    #[test]
    fn two_symbols_may_come_as_a_vector() {
        let call = Call::decode(&Value::symbols([".fleet.ready", "rdb-1"]));
        assert_eq!(call, Ok(Call::Ready { instance: "rdb-1".into() }));
    }

    #[test]
    fn an_unknown_call_lists_the_functions() {
        for value in [Value::Long(1), Value::chars("2+2"), Value::list([]), Value::symbols([".fleet.desired", "rdb"])] {
            assert!(Call::decode(&value).unwrap_err().contains(".fleet.describe"), "{value:?}");
        }
        let minus = Value::list([Value::symbol(".fleet.desired"), Value::symbol("rdb"), Value::Long(-1)]);
        assert!(Call::decode(&minus).unwrap_err().contains("type"));
    }

    #[test]
    fn answers_arrive_as_they_were_given() {
        let description = Description {
            group: "rdb".into(),
            min: 1,
            desired: 2,
            max: 8,
            lead_time: Some(Duration::from_millis(700)),
            members: vec![
                Member {
                    instance: "rdb-1".into(),
                    stage: Stage::InService,
                    process: Some(4711),
                    age: Duration::from_secs(3),
                    lead_time: Some(Duration::from_millis(700)),
                    protected: true,
                },
                Member {
                    instance: "rdb-2".into(),
                    stage: Stage::Pending,
                    process: None,
                    age: Duration::ZERO,
                    lead_time: None,
                    protected: false,
                },
            ],
        };
        assert_eq!(decode_description(&over_the_wire(&encode_description(&description))), Some(description));
        for capacity in
            [Capacity::Granted { desired: 4 }, Capacity::Refused { desired: 8, reason: "the maximum is 8".into() }]
        {
            assert_eq!(decode_capacity(&over_the_wire(&encode_capacity(&capacity))), Some(capacity));
        }
    }

    #[test]
    fn a_notice_arrives_with_its_reason_and_time() {
        let notice = Notice { reason: Reason::Unhealthy, left: Some(Duration::from_secs(9)) };
        for notice in [None, Some(notice), Some(Notice { left: None, ..notice })] {
            assert_eq!(decode_notice(&over_the_wire(&encode_notice(notice))), Some(notice));
        }
        assert_eq!(decode_notice(&Value::Long(1)), None);
    }

    #[test]
    fn an_answer_of_another_shape_is_none() {
        assert_eq!(decode_description(&Value::Long(1)), None);
        assert_eq!(decode_capacity(&Value::dict(Value::symbols(["desired"]), Value::longs([-1]))), None);
    }
}
