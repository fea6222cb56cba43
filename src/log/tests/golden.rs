//! Logs recorded from real processes.

use super::support::*;
use crate::log::{columns_of, parts};
use proto::Limits;
use std::path::{Path, PathBuf};

/// Every recorded log with its number of messages, as counted by an independent reader.
fn logs() -> Vec<(PathBuf, usize)> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/kdb/golden");
    let Ok(list) = std::fs::read_to_string(golden.join("disk-decoded.jsonl")) else {
        println!("skipped: {} is missing", golden.display());
        return Vec::new();
    };
    let files = list.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let logs = files.filter(|file| file["format"] == "log").map(|file| {
        let path = file["path"].as_str().unwrap();
        let name = path.trim_start_matches("./");
        let found = ["disk", "disk/chili"].map(|folder| golden.join(folder).join(name));
        let path = found.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not there"));
        (path, usize::try_from(file["messages"].as_u64().unwrap()).unwrap())
    });
    logs.collect()
}

#[test]
fn every_log_has_as_many_messages_as_its_writer_put_in() {
    let logs = logs();
    for (path, count) in &logs {
        assert_eq!(all(path).len(), *count, "{}", path.display());
    }
    let most = logs.iter().map(|(_, count)| *count).max();
    assert!(most.is_none_or(|most| most == 306), "the longest log is missing");
}

#[test]
fn the_messages_have_tables_and_rows() {
    for (path, _) in logs() {
        for record in all(&path) {
            let limits = Limits::default();
            let record = parts(&record, &limits).expect("an update");
            let (bytes, rows) = columns_of(&record.columns);
            assert!(rows > 0 && !bytes.is_empty() && !record.table.is_empty(), "{}", path.display());
        }
    }
}
