//! Files of every form, cut short and changed byte by byte: reading them returns a value or an error, within the memory that an evaluation may
//! have; an error for one that was cut short.

use elastick_q::session::{Session, Start};
use elastick_q::{Limits, eval_line};
use std::path::{Path, PathBuf};

/// Expressions that write files below the directory `D`, each with its reader's file or directory.
const WRITTEN: [&str; 20] = [
    "(` sv D,`long)set 1 2 3",
    "(` sv D,`text)set \"some text\"",
    "(` sv D,`guid)set 3#0Ng",
    "(` sv D,`names)set `one`two`three",
    "(` sv D,`list)set (1;`a;\"text\";1 2f;([]a:1 2);{x+y})",
    "(` sv D,`table)set ([]a:1 2;b:`x`y;c:(\"ab\";\"c\"))",
    "(` sv D,`keyed)set ([k:`a`b]v:1 2)",
    "(` sv D,`dict)set `a`b!(1;`p`q)",
    "(` sv D,`lambda)set {x+y}",
    "(` sv D,`sorted)set `s#1 2 3",
    "(` sv D,`parted)set `p#1 1 2",
    "(` sv D,`enum)set `sym?`a`b`a",
    "(` sv D,`enums)set `p#`sym?`a`a`b",
    "(` sv D,`splayed,`)set .Q.en[D]([]a:1 2;s:`x`y;c:(\"ab\";\"c\");m:(1 2;\"x\"))",
    "((` sv D,`message);12;1;0)set 3000#til 7",
    "((` sv D,`gzip);12;2;6)set 3000#til 7",
    "((` sv D,`snappy);12;3;0)set 3000#til 7",
    "((` sv D,`lz);12;4;9)set 3000#til 7",
    "((` sv D,`zstd);12;5;3)set 3000#til 7",
    "((` sv D,`packed,`);12;5;3)set .Q.en[D]([]a:1000#1 2;s:1000#`x`y;c:1000#(\"ab\";\"c\"))",
];

/// Longest file of which every byte is changed; of others, bytes near both ends.
const MAX_BYTES: usize = 200;

/// Memory of a reader.
const MEMORY_BYTES: u64 = 64 << 20;

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
}

/// Positions at which a file is cut and changed.
fn places(length: usize) -> Vec<usize> {
    if length <= MAX_BYTES {
        return (0..length).collect();
    }
    // The head of a page, and its last bytes.
    (0..32).chain(0xff0..0x1018).chain(length - 48..length).filter(|at| *at < length).collect()
}

#[test]
fn damaged_files_give_a_value_or_an_error() {
    let folder = std::env::temp_dir().join(format!("elastick-q-damaged-{}", std::process::id()));
    let mut session = Session::console(Start::default(), None);
    let limits = Limits { memory_bytes: MEMORY_BYTES, ..Limits::default() };
    let mut run = |text: &str| eval_line(&mut session, text.as_bytes(), &limits).map(drop);
    run(&format!("D:`$\":{}\"", folder.display())).expect("a path");
    run("sym:`a`b").expect("a domain");
    for text in WRITTEN {
        run(text).expect(text);
    }
    let mut written = Vec::new();
    files(&folder, &mut written);
    let (mut readings, mut rejected) = (0, 0);
    for file in written {
        let whole = std::fs::read(&file).expect("a file");
        let of_table = file.parent() != Some(folder.as_path());
        let read = if of_table { file.parent().expect("a directory") } else { &file };
        let queries = [
            format!("count get`$\":{}\"", read.display()),
            format!("-21!`$\":{}\"", file.display()),
            format!("hcount`$\":{}\"", file.display()),
            format!("(`$\":{}\")upsert 4", file.display()),
        ];
        // What a cut takes from the objects of a mapped list may be the space between them.
        let is_counted = !file.to_string_lossy().ends_with('#');
        let mut check = |bytes: &[u8], is_cut: bool| {
            for (query, reads) in queries.iter().zip([true, false, false, false]) {
                // A new file: some file systems flush one that is written over.
                std::fs::remove_file(&file).expect("the file before");
                std::fs::write(&file, bytes).expect("a damaged file");
                let result = run(query);
                readings += 1;
                rejected += usize::from(result.is_err());
                assert!(!(reads && is_cut && is_counted) || result.is_err(), "{query}: {} bytes", bytes.len());
                if let Err(error) = result {
                    let name = String::from_utf8_lossy(&error.name).into_owned();
                    assert!(!name.is_empty() && name != "stack", "{query}: {name}");
                }
            }
        };
        for at in places(whole.len()) {
            check(&whole[..at], true);
            for byte in [0xff, whole[at] ^ 1] {
                let mut changed = whole.clone();
                changed[at] = byte;
                check(&changed, false);
            }
        }
        std::fs::write(&file, &whole).expect("the file as it was");
    }
    println!("{readings} readings, {rejected} errors");
    assert!(rejected > 1000);
    std::fs::remove_dir_all(&folder).expect("an own directory");
}
