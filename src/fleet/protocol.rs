//! What nodes and operators say to a supervisor, as kdb+ messages: `(".fleet.describe"; group)` and so on. Any kdb+
//! client can send them.
//!
//! | call | answer |
//! |---|---|
//! | ``(`.fleet.describe; `group)`` | dictionary `group min desired max lead members` |
//! | ``(`.fleet.desired; `group; n)`` | dictionary `granted desired reason` |
//! | ``(`.fleet.ready; `instance)`` | `::` |
//! | ``(`.fleet.terminate; `instance)`` | `::`, or the error why not |

use super::{Capacity, Description, Member, Stage};
use proto::{Items, Value, types};
use std::time::Duration;

/// A call, with the name that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Describe { group: String },
    AtLeast { group: String, desired: u32 },
    Ready { instance: String },
    Terminate { instance: String },
}

const DESCRIBE: &[u8] = b".fleet.describe";
const DESIRED: &[u8] = b".fleet.desired";
const READY: &[u8] = b".fleet.ready";
const TERMINATE: &[u8] = b".fleet.terminate";

impl Call {
    pub fn encode(&self) -> Value {
        let call = |function: &[u8], name: &str| vec![Value::symbol(function), Value::symbol(name)];
        Value::list(match self {
            Call::Describe { group } => call(DESCRIBE, group),
            Call::AtLeast { group, desired } => {
                let mut items = call(DESIRED, group);
                items.push(Value::Long(i64::from(*desired)));
                items
            }
            Call::Ready { instance } => call(READY, instance),
            Call::Terminate { instance } => call(TERMINATE, instance),
        })
    }

    /// # Errors
    /// In words, what is none of the calls.
    pub fn decode(message: &Value) -> Result<Call, String> {
        let usage = "fleet: call (`.fleet.describe;`group), (`.fleet.desired;`group;n), (`.fleet.ready;`instance) or \
                     (`.fleet.terminate;`instance)";
        // Two symbols travel as a symbol vector.
        let items: Vec<Value> = (0..message.len().min(4)).filter_map(|i| message.item(i)).collect();
        let text = |value: &Value| value.as_text().map(|text| String::from_utf8_lossy(text).into_owned());
        let [function, name, rest @ ..] = &items[..] else { return Err(usage.to_string()) };
        let (Some(function), Some(name)) = (function.as_text(), text(name)) else { return Err(usage.to_string()) };
        match (function, rest) {
            (DESCRIBE, []) => Ok(Call::Describe { group: name }),
            (READY, []) => Ok(Call::Ready { instance: name }),
            (TERMINATE, []) => Ok(Call::Terminate { instance: name }),
            (DESIRED, [count]) => {
                let count = count.as_long().or_else(|| count.as_int().map(i64::from));
                let desired = count.and_then(|n| u32::try_from(n).ok()).ok_or("type: n is a number of instances")?;
                Ok(Call::AtLeast { group: name, desired })
            }
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
    ]);
    let values = Value::list([
        Value::symbol(&description.group),
        Value::Long(i64::from(description.min)),
        Value::Long(i64::from(description.desired)),
        Value::Long(i64::from(description.max)),
        Value::Timespan(timespan(description.lead_time)),
        table,
    ]);
    Value::dict(Value::symbols(["group", "min", "desired", "max", "lead", "members"]), values)
}

/// `None` where the answer is not what [`encode_description`] makes.
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
    let rows = instances.iter().zip(stages).zip(processes).zip(ages.iter().zip(&leads));
    let members = rows.map(|(((instance, stage), process), (age, lead))| {
        Some(Member {
            instance: String::from_utf8_lossy(instance).into_owned(),
            stage: Stage::from_name(std::str::from_utf8(stage).ok()?)?,
            process: u32::try_from(*process).ok(),
            age: duration(*age)?,
            lead_time: duration(*lead),
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

pub fn encode_capacity(capacity: &Capacity) -> Value {
    let (granted, desired, reason) = match capacity {
        Capacity::Granted { desired } => (true, desired, ""),
        Capacity::Refused { desired, reason } => (false, desired, reason.as_str()),
    };
    let values = Value::list([Value::Bool(granted), Value::Long(i64::from(*desired)), Value::chars(reason)]);
    Value::dict(Value::symbols(["granted", "desired", "reason"]), values)
}

/// `None` where the answer is not what [`encode_capacity`] makes.
pub fn decode_capacity(answer: &Value) -> Option<Capacity> {
    let desired = u32::try_from(answer.lookup("desired")?.as_long()?).ok()?;
    if answer.lookup("granted")?.as_bool()? {
        return Some(Capacity::Granted { desired });
    }
    let reason = answer.lookup("reason")?;
    Some(Capacity::Refused { desired, reason: String::from_utf8_lossy(reason.as_text()?).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Limits, decode, encode};

    /// A value as the other side sees it.
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
    fn anything_else_is_told_what_to_call() {
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
                },
                Member {
                    instance: "rdb-2".into(),
                    stage: Stage::Pending,
                    process: None,
                    age: Duration::ZERO,
                    lead_time: None,
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
    fn an_answer_of_another_shape_is_none() {
        assert_eq!(decode_description(&Value::Long(1)), None);
        assert_eq!(decode_capacity(&Value::dict(Value::symbols(["desired"]), Value::longs([-1]))), None);
    }
}
