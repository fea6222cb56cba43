//! The subcommands of `elastick log` as processes.

use crate::harness::{Directory, elastick};
use elastick::config::{Damage, Durability, RequiredMount};
use elastick::env::Env;
use elastick::log::{LogOptions, LogWriter, log_path, side_path};
use jiff::civil::Date;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

const DAY: Date = Date::constant(2026, 11, 21);

/// An update of two columns of `rows` rows.
fn update(table: &str, rows: usize) -> Vec<u8> {
    let mut out = Vec::new();
    proto::log::write_record_head(table.as_bytes(), 2, &mut out);
    let count = i32::try_from(rows).expect("a small number").to_le_bytes();
    out.extend_from_slice(&[16, 0]);
    out.extend_from_slice(&count);
    (0..rows).for_each(|row| out.extend_from_slice(&(row as i64 * 1_000_000_000).to_le_bytes()));
    out.extend_from_slice(&[11, 0]);
    out.extend_from_slice(&count);
    (0..rows).for_each(|row| out.extend_from_slice([&b"IBM\0"[..], b"MSFT\0"][row % 2]));
    out
}

fn writer(directory: &Directory) -> LogWriter {
    let options = LogOptions {
        env: Env::system(),
        dir: directory.path().to_path_buf(),
        src: "sym".to_string(),
        durability: Durability::Os,
        damage: Damage::Stop,
        mount: RequiredMount::Any,
        epoch: None,
        address: None,
        limits: proto::Limits::default(),
        chunk_bytes: 1 << 16,
        buffer_bytes: 0,
        waker: None,
    };
    LogWriter::open(options, DAY).expect("the log opens").0
}

/// Ten updates: trade of one to five rows, quote of two, in turn.
fn log(directory: &Directory) -> PathBuf {
    let mut writer = writer(directory);
    for turn in 0..5 {
        writer.append(&[update("trade", turn + 1), update("quote", 2)].concat(), 2).expect("it is logged");
    }
    writer.close().expect("the log closes");
    log_path(directory.path(), "sym", DAY)
}

fn run(arguments: &[&str], log: &Path) -> Output {
    elastick(&["log"]).args(arguments).arg(log).output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Json {
    assert!(output.status.success(), "{}", complaint(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn flip(log: &Path, byte: usize) {
    let mut bytes = std::fs::read(log).expect("the log can be read");
    bytes[byte] ^= 0x40;
    std::fs::write(log, bytes).expect("the log can be written");
}

#[test]
fn info_counts_updates_and_rows_of_each_table() {
    let directory = Directory::new("log-info");
    let info = json(&run(&["info", "--json"], &log(&directory)));
    assert_eq!((&info["updates"], &info["whole"]), (&10.into(), &true.into()));
    let table = |at: usize| (info["tables"][at]["table"].clone(), info["tables"][at]["rows"].clone());
    assert_eq!(table(0), ("quote".into(), 10.into()));
    assert_eq!(table(1), ("trade".into(), 15.into()));
    assert_eq!(info["tables"][1]["last"], "0D00:00:04.000000000");
}

#[test]
fn info_is_a_table_for_people() {
    let directory = Directory::new("log-people");
    let shown = text(&run(&["info"], &log(&directory)));
    assert!(shown.contains("10 updates") && shown.contains("trade") && shown.contains("whole"), "{shown}");
}

#[test]
fn verify_fails_and_names_the_damage() {
    let directory = Directory::new("log-verify");
    let log = log(&directory);
    assert!(run(&["verify"], &log).status.success());
    let second = 8 + update("trade", 1).len();
    flip(&log, second);
    let output = run(&["verify"], &log);
    assert_eq!(output.status.code(), Some(1));
    let last = second + update("quote", 2).len();
    let shown = text(&output);
    assert!(shown.contains(&format!("bytes {second} to {last} (updates 1 to 2)")), "{shown}");
}

#[test]
fn cat_prints_a_range_of_one_table() {
    let directory = Directory::new("log-cat");
    let log = log(&directory);
    let shown = text(&run(&["cat", "--from", "2", "--to", "7", "--tables", "trade"], &log));
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert_eq!(lines[0], "2 upd trade 2 rows | 0D00:00:00.000000000 0D00:00:01.000000000 | `IBM`MSFT");
}

#[test]
fn cat_prints_json_lines() {
    let directory = Directory::new("log-json");
    let shown = text(&run(&["cat", "--json", "--from", "9"], &log(&directory)));
    let line: Json = serde_json::from_str(&shown).expect("one line of JSON");
    assert_eq!((&line["index"], &line["table"], &line["data"][1][0]), (&9.into(), &"quote".into(), &"IBM".into()));
}

#[test]
fn cat_into_a_closed_pipe_ends_in_silence() {
    let directory = Directory::new("log-pipe");
    let mut writer = writer(&directory);
    let batch = update("trade", 1).repeat(1000);
    (0..100).for_each(|_| writer.append(&batch, 1000).expect("it is logged"));
    writer.close().expect("the log closes");
    let log = log_path(directory.path(), "sym", DAY);
    let mut child =
        elastick(&["log", "cat"]).arg(&log).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", complaint(&output));
}

#[test]
fn a_slice_is_a_log() {
    let directory = Directory::new("log-slice");
    let log = log(&directory);
    let out = directory.path().join("slice");
    let out_text = out.to_str().expect("a path in UTF-8");
    let output = run(&["slice", "--from", "1", "--to", "6", "--tables", "quote", "--out", out_text], &log);
    assert!(output.status.success(), "{}", complaint(&output));
    let info = json(&run(&["info", "--json"], &out));
    assert_eq!((&info["updates"], &info["tables"][0]["rows"]), (&3.into(), &6.into()));
    let again = run(&["slice", "--from", "1", "--to", "6", "--tables", "quote", "--out", "-"], &log);
    assert_eq!(again.stdout, std::fs::read(&out).expect("the slice can be read"));
    let taken = run(&["slice", "--out", out_text], &log);
    assert!(!taken.status.success(), "a file that exists is not overwritten");
}

/// Two logs of ten updates each, the second of a later time.
fn two(directory: &Directory) -> [PathBuf; 2] {
    let first = log(directory);
    let second = directory.path().join("sym2026.11.22");
    let later: Vec<u8> = (0..10).flat_map(|turn| update("quote", turn + 10)).collect();
    std::fs::write(&second, [&proto::log::FILE_HEAD[..], &later].concat()).expect("written");
    [first, second]
}

fn join(options: &[&str], logs: &[&Path], out: &Path) -> Output {
    elastick(&["log", "join", "--out"]).arg(out).args(options).args(logs).output().expect("it runs")
}

#[test]
fn join_rejects_a_log_that_is_given_twice() {
    let directory = Directory::new("log-twice");
    let [first, second] = two(&directory);
    let out = directory.path().join("joined");
    let joined = join(&[], &[&first, &second], &out);
    assert!(joined.status.success(), "{}", complaint(&joined));
    assert_eq!(json(&run(&["info", "--json"], &out))["updates"], 20);
    std::fs::remove_file(&out).expect("removed");
    let (link, copy, beginning) =
        (directory.path().join("link"), directory.path().join("copy"), directory.path().join("beginning"));
    std::os::unix::fs::symlink(&first, &link).expect("linked");
    std::fs::copy(&first, &copy).expect("copied");
    assert!(run(&["slice", "--to", "3", "--out", beginning.to_str().expect("UTF-8")], &first).status.success());
    for again in [&first, &link, &copy, &beginning] {
        let joined = join(&[], &[&first, &second, again], &out);
        assert_eq!(joined.status.code(), Some(1));
        let why = complaint(&joined);
        assert!(why.contains("same log") && why.contains(&again.display().to_string()), "{why}");
        assert!(!out.exists(), "{why}");
    }
}

#[test]
fn what_join_and_slice_leave_out_is_an_error_unless_allowed() {
    let directory = Directory::new("log-join-torn");
    let [first, second] = two(&directory);
    let bytes = std::fs::read(&second).expect("the log can be read");
    std::fs::write(&second, &bytes[..bytes.len() - 5]).expect("the log can be written");
    let torn = bytes.len() - update("quote", 19).len();
    let wanted = format!(
        "{}: LEFT OUT: unfinished record at the end: {} bytes at byte {torn}",
        second.display(),
        bytes.len() - 5 - torn
    );
    for (options, code) in [(&[][..], 1), (&["--allow-torn"], 0)] {
        let out = directory.path().join(format!("joined-{code}"));
        let joined = join(options, &[&first, &second], &out);
        assert_eq!(joined.status.code(), Some(code));
        assert!(complaint(&joined).contains(&wanted), "{}", complaint(&joined));
        assert_eq!(json(&run(&["info", "--json"], &out))["updates"], 19);
        let sliced = run(&[&["slice", "--from", "5", "--out", "-"], options].concat(), &second);
        assert_eq!(sliced.status.code(), Some(code));
        assert!(complaint(&sliced).contains(&wanted), "{}", complaint(&sliced));
    }
    let whole = run(&["slice", "--to", "9", "--out", "-"], &second);
    assert!(whole.status.success() && whole.stderr.is_empty(), "the range is whole: {}", complaint(&whole));
}

#[test]
fn repair_cuts_a_torn_end() {
    let directory = Directory::new("log-torn");
    let log = log(&directory);
    let bytes = std::fs::read(&log).expect("the log can be read");
    std::fs::write(&log, &bytes[..bytes.len() - 5]).expect("the log can be written");
    let output = run(&["repair"], &log);
    assert!(output.status.success(), "{}", complaint(&output));
    let info = json(&run(&["info", "--json"], &log));
    assert_eq!((&info["updates"], &info["whole"]), (&9.into(), &true.into()));
}

#[test]
fn repair_of_damage_needs_a_target_and_keeps_the_damaged_log() {
    let directory = Directory::new("log-repair");
    let log = log(&directory);
    flip(&log, 8);
    let damaged = std::fs::read(&log).expect("the log can be read");
    let output = run(&["repair"], &log);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read(&log).expect("the log can be read"), damaged);
    let report = json(&run(&["repair", "--in-place", "--json"], &log));
    assert_eq!((&report["records"], &report["lost"][0]["last_index"]), (&9.into(), &1.into()));
    let original = report["original"].as_str().expect("where the damaged log is");
    assert_eq!(std::fs::read(original).expect("it can be read"), damaged);
    // The rest of the block may have been written only in part, so it stays marked as damaged.
    let verify = run(&["verify", "--json"], &log);
    assert!(!verify.status.success());
    assert!(
        serde_json::from_slice::<Json>(&verify.stdout).expect("JSON")["damage"][0]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("kept by a repair"))
    );
    let cut = json(&run(&["repair", "--in-place", "--changed-blocks", "cut", "--json"], &log));
    assert_eq!(cut["changed_blocks_are"], "left out");
    assert!(run(&["verify"], &log).status.success());
}

#[test]
fn repair_names_blocks_with_changed_values_and_neither_it_nor_a_new_side_file_hides_them() {
    let directory = Directory::new("log-changed");
    let log = log(&directory);
    let bytes = std::fs::read(&log).expect("the log can be read");
    flip(&log, bytes.len() - 3);
    let output = run(&["repair"], &log);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("checksum of the block differs"), "{}", complaint(&output));
    let out = directory.path().join("repaired");
    let output = run(&["repair", "--out", out.to_str().expect("a path in UTF-8")], &log);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("kept, marked as damaged"), "{said}");
    assert!(run(&["index"], &log).status.success());
    for marked in [&log, &out] {
        let verify = run(&["verify"], marked);
        assert!(!verify.status.success());
        let proof = json(&run(&["proof", "--json"], marked));
        assert_eq!(proof["damage"][0]["last_index"], 10);
    }
    // Accepts the log as it is: without the side file there is no checksum to contradict it.
    std::fs::remove_file(elastick::log::side_path(&log)).expect("the side file can be removed");
    assert!(run(&["index"], &log).status.success());
    assert!(run(&["verify"], &log).status.success());
}

#[test]
fn index_makes_the_side_file_anew() {
    let directory = Directory::new("log-index");
    let log = log(&directory);
    std::fs::remove_file(side_path(&log)).expect("there was a side file");
    assert_eq!(json(&run(&["index", "--json"], &log))["records"], 10);
    let info = json(&run(&["verify", "--json"], &log));
    assert_eq!((&info["side"]["records"], &info["side"]["checksums_compared"]), (&10.into(), &true.into()));
}

#[test]
fn a_log_in_use_cannot_be_changed_by_tools() {
    let directory = Directory::new("log-held");
    let log = log(&directory);
    let writer = writer(&directory);
    for action in [&["index"][..], &["repair", "--in-place"]] {
        if action.len() > 1 {
            flip(&log, 8);
        }
        let output = run(action, &log);
        assert!(complaint(&output).contains("in use"), "{action:?}: {}", complaint(&output));
    }
    assert!(text(&run(&["info"], &log)).contains("updates"));
    drop(writer);
}

#[test]
fn a_file_that_is_not_a_log_is_reported() {
    let directory = Directory::new("log-none");
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, "hello").expect("a file can be written");
    let output = run(&["info"], &path);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("is not a tickerplant log"), "{}", complaint(&output));
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let directory = Directory::new("log-usage");
    let log = log(&directory);
    for arguments in [&["cat", "--from", "5", "--to", "2"][..], &["cat", "--from", "x"], &["dance"], &["slice"]] {
        assert_eq!(run(arguments, &log).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn proofs_of_windows_add_up_to_the_proof_of_the_day() {
    let directory = Directory::new("log-proof");
    let log = log(&directory);
    let proof = |arguments: &[&str]| -> Json {
        let output = run(&[&["proof", "--json"], arguments].concat(), &log);
        serde_json::from_str(&text(&output)).expect("a line of JSON")
    };
    let hash = |proof: &Json| u64::from_str_radix(proof["tables"]["trade"]["hash"].as_str().expect("text"), 16);
    let (whole, first, rest) = (proof(&[]), proof(&["--to", "3"]), proof(&["--from", "3", "--tables", "trade"]));
    assert_eq!((&whole["first"], &whole["last"]), (&Json::from(0), &Json::from(10)));
    assert_eq!(whole["tables"]["trade"]["rows"], 15);
    assert_eq!(rest["tables"].get("quote"), None);
    assert_eq!(first["tables"]["trade"]["rows"], 3);
    let sum = hash(&first).expect("a hash").wrapping_add(hash(&rest).expect("a hash"));
    assert_eq!(sum, hash(&whole).expect("a hash"));
}

#[test]
fn updates_are_printed_by_time() {
    let directory = Directory::new("log-times");
    let log = log(&directory);
    let lines = |from: &str, to: &str| text(&run(&["cat", "--from", from, "--to", to], &log)).lines().count();
    assert_eq!((lines("00:00", "00:00:01"), lines("00:00:01", "23:00"), lines("2", "00:01")), (10, 0, 8));
    for (from, ends) in [("00:00:01", "; the log has 10 updates\n"), ("12", "; the log has 10 updates\n"), ("0", "")] {
        let said = complaint(&run(&["cat", "--from", from], &log));
        assert!(said.ends_with(ends) && said.contains("no update is between") != ends.is_empty(), "{from}: {said}");
    }
    let wrong = run(&["cat", "--from", "2026.11.21D00:00"], &log);
    assert!(!wrong.status.success() && complaint(&wrong).contains("time of day and no date"), "{}", complaint(&wrong));
    let wrong = run(&["cat", "--from", "noon"], &log);
    assert!(wrong.status.code() == Some(2) && complaint(&wrong).contains("09:30:00.5"), "{}", complaint(&wrong));
}

/// Copies the day's log, with its side file, to other days.
fn copies(directory: &Directory, dates: &[&str]) {
    let log = log(directory);
    for date in dates {
        let copy = directory.path().join(format!("sym{date}"));
        std::fs::copy(&log, &copy).expect("copied");
        std::fs::copy(side_path(&log), side_path(&copy)).expect("copied");
    }
}

#[test]
fn a_directory_is_verified_listed_and_pruned() {
    let directory = Directory::new("log-days");
    copies(&directory, &["2020.01.01", "2020.01.02", "2020.01.03"]);
    let dir = directory.path();
    std::fs::remove_file(dir.join("sym2020.01.02.index")).expect("removed");
    let verified = run(&["verify"], dir);
    assert!(verified.status.success(), "{}", complaint(&verified));
    assert_eq!(text(&verified).matches("10 updates").count(), 4);
    let listed = text(&run(&["info", "--keep-days", "1"], dir));
    for line in ["sym 2020.01.01", "no side file", "due", "forced", "4 days", "2020.01.03"] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    let names = || {
        let entries = std::fs::read_dir(dir).expect("listed").flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.starts_with("sym20"));
        names.sort();
        names
    };
    let all = names();
    let dry = run(&["prune", "--keep-days", "1", "--dry-run"], dir);
    assert!(text(&dry).contains("sym2020.01.01: would delete 2 files") && names() == all, "{}", text(&dry));
    let pruned = run(&["prune", "--keep-days", "1"], dir);
    assert_eq!(pruned.status.code(), Some(1), "a day past its time is kept");
    assert!(complaint(&pruned).contains("--force") && text(&pruned).contains("no side file"), "{}", complaint(&pruned));
    assert_eq!(
        names(),
        ["sym2020.01.02", "sym2020.01.03", "sym2020.01.03.index", "sym2026.11.21", "sym2026.11.21.index"]
    );
    assert!(run(&["prune", "--keep-days", "1", "--force"], dir).status.success());
    assert_eq!(names(), ["sym2020.01.03", "sym2020.01.03.index", "sym2026.11.21", "sym2026.11.21.index"]);
    flip(&dir.join("sym2020.01.03"), 40);
    let verified = run(&["verify"], dir);
    assert!(
        !verified.status.success() && complaint(&verified).contains("one log is damaged"),
        "{}",
        complaint(&verified)
    );
}

#[test]
fn a_directory_is_no_log() {
    let directory = Directory::new("log-directory");
    assert!(complaint(&run(&["verify"], directory.path())).contains("no logs there"));
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("written");
    assert!(complaint(&run(&["prune", "--keep-days", "1"], &file)).contains("is no directory"));
    assert!(complaint(&run(&["prune"], directory.path())).contains("--keep-days"));
}
