//! Compares serialised values with bytes recorded from a real q process: expressions evaluated here serialise to the same bytes,
//! and recorded bytes survive a round trip. Skipped if the recording is not present.

use columns::table::Value;
use elastick_q::session::{Session, Start};
use elastick_q::{Limits, eval_line, eval_text, from_view, to_wire};
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

/// Databases that q wrote, and tables in them.
const FILES: [(&str, &[&str]); 4] = [
    ("TorQ/hdb-queryorder", &["2021.01.04/packets", "2021.01.04/quote"]),
    ("TorQ-Finance-Starter-Pack/dqe/dqedb/database", &["2020.09.03/resultstab", "2020.09.03/advancedres"]),
    ("TorQ-Finance-Starter-Pack/dqe/dqcdb/database", &["2020.04.17/configtable", "2020.04.17/results"]),
    ("TorQ-Finance-Starter-Pack/hdb", &["2015.01.07/trade_iex", "2015.01.07/quote_iex"]),
];

/// Files in a form that releases of q since 3.6 do not write: 32-bit indices of an enumeration, end offsets of vectors; and mapped lists, which
/// have a test of their own.
fn is_written_otherwise(bytes: &[u8]) -> bool {
    matches!(bytes, [0xfe, s, ..] if *s != 0x20)
        || matches!(bytes, [0xfe, 0x20, 77..=u8::MAX, ..])
        || bytes.get(0xff1) == Some(&1)
}

/// A file's bytes without the count in its head, which an append by q leaves as it was.
fn without_count(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let at = match bytes {
        [0xfe, 0x20, ..] => 8..16,
        [0xfd, 0x20, ..] => 0xff8..0x1000,
        _ => 4..8,
    };
    out[at].fill(0);
    out
}

#[test]
fn columns_are_written_as_q_wrote_them() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/kdb/golden/disk");
    if !golden.exists() {
        println!("skipped: {} is not there", golden.display());
        return;
    }
    let target = std::env::temp_dir().join(format!("elastick-q-bytes-{}", std::process::id()));
    let mut session = Session::console(Start::default(), None);
    let mut run = |text: String| eval_line(&mut session, text.as_bytes(), &Limits::default()).map(drop);
    let (mut compared, mut wrong) = (0, Vec::new());
    for (database, tables) in FILES {
        let database = golden.join(database);
        run(format!("sym:get`$\":{}/sym\"", database.display())).expect("the symbols");
        for table in tables.iter().map(|t| database.join(t)) {
            let files = std::fs::read_dir(&table).expect("a table").map(|e| e.expect("an entry").path());
            for file in files.filter(|f| !f.to_string_lossy().ends_with('#')) {
                let bytes = std::fs::read(&file).expect("a column");
                if is_written_otherwise(&bytes) {
                    continue;
                }
                let is_names = file.ends_with(".d");
                let (place, what) = if is_names { ("n", "") } else { ("t/", "([]c:") };
                let end = if is_names { "" } else { ")" };
                let from = format!("get`$\":{}\"", file.display());
                run(format!("(`$\":{}/{place}\")set {what}{from}{end};", target.display())).expect("a written file");
                let here = target.join(if is_names { "n" } else { "t/c" });
                let mut pairs = vec![(bytes, std::fs::read(&here).expect("a file"))];
                let beside = |f: &std::path::Path| PathBuf::from(format!("{}#", f.display()));
                if beside(&file).exists() {
                    pairs.push((
                        std::fs::read(beside(&file)).expect("items"),
                        std::fs::read(beside(&here)).unwrap_or_default(),
                    ));
                }
                compared += pairs.len();
                let same = pairs.iter().enumerate().all(|(i, (q, here))| match i {
                    0 => without_count(q) == without_count(here),
                    _ => q == here,
                });
                if !same {
                    wrong.push(file.display().to_string());
                }
            }
        }
    }
    std::fs::remove_dir_all(&target).expect("the files of this test");
    println!("{compared} files");
    assert!(compared > 60, "{compared} files");
    assert!(wrong.is_empty(), "{} of {compared} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// Columns with an index of their parts after the items, below the databases: their number of items, and the last one.
const PARTED: [(&str, &str, &str); 4] = [
    ("TorQ/hdb-queryorder", "2021.01.04/packets/sym", "0 (`p;`sym$`)"),
    ("TorQ-Finance-Starter-Pack/hdb", "2015.01.07/trade/sym", "196519 (`p;`sym$`DELL)"),
    ("TorQ-Finance-Starter-Pack/hdb", "2015.01.07/trade_iex/sym", "0 (`p;`sym$`)"),
    ("TorQ-Finance-Starter-Pack/hdb", "2015.01.07/quote_iex/sym", "0 (`p;`sym$`)"),
];

#[test]
fn an_index_after_the_items_is_not_read_as_items() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/kdb/golden/disk");
    if !golden.exists() {
        println!("skipped: {} is not there", golden.display());
        return;
    }
    let mut session = Session::console(Start::default(), None);
    for (database, file, expected) in PARTED {
        let database = golden.join(database);
        let text = format!(
            "sym:get`$\":{0}/sym\";c:get`$\":{0}/{1}\";string[count c],\" \",.Q.s1(attr c;last c)",
            database.display(),
            file
        );
        let value = eval_text(&mut session, text.as_bytes(), &Limits::default()).expect(file);
        assert_eq!(value.as_text(), Some(expected.as_bytes()), "{file}");
    }
}

#[test]
fn mapped_lists_are_written_as_q_wrote_them() {
    /// Bytes of the objects of the first item. The second one has a parted vector of symbols with its index, which is not written here.
    const FIRST: std::ops::Range<usize> = 0xff0..0x1140;
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/kdb/golden/disk");
    let table = golden.join("TorQ-Finance-Starter-Pack/dqe/dqedb/database/2020.09.03/advancedres");
    if !table.exists() {
        println!("skipped: {} is not there", table.display());
        return;
    }
    let target = std::env::temp_dir().join(format!("elastick-q-mapped-bytes-{}", std::process::id()));
    std::fs::create_dir_all(&target).expect("a directory");
    let mut session = Session::console(Start::default(), None);
    let text = format!("(`$\":{0}/c\")set get`$\":{1}/resultdata\"", target.display(), table.display());
    eval_line(&mut session, text.as_bytes(), &Limits::default()).expect("a written list");
    let read = |folder: &std::path::Path, name: &str| std::fs::read(folder.join(name)).expect("a file");
    assert_eq!(read(&target, "c"), read(&table, "resultdata"));
    assert_eq!(read(&target, "c#").get(FIRST), read(&table, "resultdata#").get(FIRST));
    assert_eq!(read(&target, "c##"), read(&table, "resultdata##"));
    std::fs::remove_dir_all(&target).expect("an own directory");
}
