//! The committed corpora of the coverage-guided fuzzer (`fuzz/`), run through its targets without it: what was once found stays
//! found.

use crate::targets::ALL;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// A target's inputs; there are some.
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

/// One test for each target, so that they run beside each other.
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
