//! Runs the committed corpora of the coverage-guided fuzzer (`fuzz/`) through its targets, without the fuzzer: regression tests of past
//! findings.

use crate::targets::ALL;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the inputs of a target; fails if there are none.
fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn check(target: &str) {
    let (_, check) = ALL.iter().find(|(name, _)| *name == target).expect("a target");
    let fails = |file: &PathBuf| {
        let bytes = fs::read(file).expect("a readable file");
        catch_unwind(|| check(&bytes)).is_err()
    };
    let failed: Vec<PathBuf> = inputs(target).into_iter().filter(fails).collect();
    assert!(failed.is_empty(), "{target}: {failed:?}");
}

/// One test per target, so that they run in parallel.
macro_rules! corpora {
    ($($target:ident),*) => {
        $(#[test]
        fn $target() {
            check(stringify!($target));
        })*

        #[test]
        fn every_target_has_its_test() {
            assert_eq!(ALL.map(|(name, _)| name), [$(stringify!($target)),*]);
        }
    };
}

corpora!(codec, decompress, stream, http, websocket, publish, log, journal, q, message, config, schema);

#[test]
fn a_target_that_is_not_there_is_rejected_with_those_that_are() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/run");
    for arguments in [&["nosuch", "5"][..], &["replay", "nosuch", "a-file"], &["minimize"]] {
        // An absent compiler makes any attempt to build fail.
        let output = Command::new(&script).args(arguments).env("RUSTC", "/nowhere").output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.trim_end().ends_with(&ALL.map(|(name, _)| name).join(" ")), "{words}");
    }
}
