//! Compares serialised values with bytes recorded from a real q process: expressions evaluated here serialise to the same bytes,
//! and recorded bytes survive a round trip. Skipped if the recording is not present.

use columns::table::Value;
use elastick_q::session::Session;
use elastick_q::{Limits, eval_text, from_view, to_wire};
use proto::{Endian, View, Writer};
use std::path::PathBuf;

struct Recorded {
    expression: String,
    bytes: Vec<u8>,
    /// The expression was evaluated by q 3. Others are comments, or output of q 2, whose integers are ints.
    evaluates: bool,
}

fn recorded() -> Vec<Recorded> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/kdb/golden/expr-bytes.jsonl");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("skipped: {} is not there", file.display());
        return Vec::new();
    };
    let hex = |h: &str| (0..h.len() / 2).map(|i| u8::from_str_radix(&h[2 * i..2 * i + 2], 16).expect("hex")).collect();
    text.lines()
        .filter_map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let bytes: Vec<u8> = hex(row["hex"].as_str()?);
            let (start, usual) = match row["kind"].as_str()? {
                "message" => (8, bytes.first() == Some(&1) && bytes.get(2) == Some(&0)),
                "payload" => (0, true),
                _ => return None,
            };
            let expression = row["expr"].as_str().unwrap_or_default().to_owned();
            let evaluates = row["file"].as_str().is_some_and(|f| f.ends_with("3.out") || f.ends_with(".md"));
            usual.then(|| Recorded { expression, bytes: bytes[start..].to_vec(), evaluates })
        })
        .collect()
}

fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    to_wire(value, &mut writer).ok()?;
    writer.finish().ok()?;
    Some(bytes)
}

#[test]
fn files_of_q_survive_a_round_trip() {
    let mut wrong = Vec::new();
    for r in recorded().iter().filter(|r| r.bytes.first() != Some(&0x80)) {
        let (view, _) = View::parse(&r.bytes, Endian::Little, &proto::Limits::default()).expect("an object");
        match from_view(&view) {
            Ok(value) if bytes_of(&value).as_ref() == Some(&r.bytes) => {}
            other => wrong.push(format!("{}: {other:?}", r.expression)),
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn expressions_give_the_bytes_that_q_gave() {
    let (mut told, mut wrong) = (0, Vec::new());
    // Keywords that are k text or compositions in kdb+ are sent as lambdas here; one page predates q 3.
    let others = ["xbar", "any", "save", "-8!1 2 3"];
    for r in recorded().iter().filter(|r| r.evaluates && !others.contains(&r.expression.as_str())) {
        let expression = r.expression.strip_prefix("-8!").unwrap_or(&r.expression);
        let result = eval_text(&mut Session::new(), expression.as_bytes(), &Limits::default());
        let Ok(value) = &result else { continue };
        told += 1;
        if bytes_of(value).as_ref() != Some(&r.bytes) {
            wrong.push(format!("{}\n  q    {:02x?}\n  here {:02x?}", r.expression, r.bytes, bytes_of(value)));
        }
    }
    println!("{told} expressions, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{} of {told} differ\n{}", wrong.len(), wrong.join("\n"));
}
