//! The log compared with a vector of updates.

use super::support::*;
use crate::log::Next;
use proptest::prelude::*;

/// Actions of a tickerplant and its readers.
#[derive(Clone, Debug)]
enum Step {
    Append(Vec<usize>),
    Flush,
    Close,
    Crash,
    Seek(usize),
    Read(usize),
    LoseSideFile,
    /// Cut so many bytes off the end of a log without a writer.
    Tear(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::collection::vec(1usize..400, 1..8).prop_map(Step::Append),
        1 => Just(Step::Flush),
        1 => Just(Step::Close),
        1 => Just(Step::Crash),
        3 => (0usize..200).prop_map(Step::Seek),
        4 => (1usize..50_000).prop_map(Step::Read),
        1 => Just(Step::LoseSideFile),
        1 => (1usize..3000).prop_map(Step::Tear),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_log_holds_what_was_appended_whatever_happens_between(steps in steps()) {
        let folder = Folder::new();
        let path = folder.log();
        let mut model: Vec<Vec<u8>> = Vec::new();
        let open = || folder.open();
        let mut writer = Some(open().0);
        let mut follower = reader(&path);
        let mut position = 0;
        for step in steps {
            let log = writer.as_mut().unwrap();
            match step {
                Step::Append(rows) => {
                    let batch: Vec<_> = rows.iter().map(|rows| update("trade", model.len() as i64, *rows)).collect();
                    log.append(&batch.concat(), batch.len() as u64).unwrap();
                    model.extend(batch);
                }
                Step::Flush => log.flush().unwrap(),
                Step::Close => {
                    writer.take().unwrap().close().unwrap();
                    writer = Some(open().0);
                }
                Step::Crash => {
                    drop(writer.take());
                    writer = Some(open().0);
                }
                Step::Seek(index) => {
                    position = index.min(model.len());
                    follower.seek(position as u64).unwrap();
                }
                Step::Read(most_bytes) => match follower.next_chunk(most_bytes, u64::MAX).unwrap() {
                    Next::Chunk(chunk) => {
                        prop_assert_eq!(chunk.first_index, position as u64);
                        for (index, bytes) in chunk.iter() {
                            prop_assert_eq!(bytes, &model[index as usize][..]);
                        }
                        position += chunk.ends.len();
                    }
                    Next::NotYet => prop_assert_eq!(position, model.len()),
                },
                Step::LoseSideFile => {
                    drop(writer.take());
                    let _ = std::fs::remove_file(crate::log::side_path(&path));
                    writer = Some(open().0);
                }
                Step::Tear(bytes) => {
                    drop(writer.take());
                    let size = std::fs::metadata(&path).unwrap().len();
                    let left = size.saturating_sub(bytes as u64).max(8);
                    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
                    let mut end = 8;
                    let whole = model.iter().take_while(|update| { end += update.len() as u64; end <= left }).count();
                    model.truncate(whole);
                    writer = Some(open().0);
                    follower = reader(&path);
                    position = 0;
                }
            }
            prop_assert_eq!(writer.as_ref().unwrap().tip(), model.len() as u64);
        }
        prop_assert_eq!(all(&path), model);
    }

    #[test]
    fn a_repair_accounts_for_every_byte_of_a_spoiled_log(
        rows in prop::collection::vec(1usize..60, 1..30),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1usize..40), 1..5),
        cut in 0usize..50,
        with_side in any::<bool>(),
    ) {
        let folder = Folder::new();
        let updates: Vec<_> = rows.iter().map(|rows| update("trade", 3, *rows)).collect();
        let path = folder.with(&updates);
        if !with_side {
            std::fs::remove_file(crate::log::side_path(&path)).unwrap();
        }
        let mut bytes = std::fs::read(&path).unwrap();
        for (place, byte, length) in spoils {
            let at = 8 + place.index(bytes.len() - 8);
            let end = (at + length).min(bytes.len());
            bytes[at..end].fill(byte);
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len() - 8));
        std::fs::write(&path, &bytes).unwrap();
        let out = folder.0.join("out");
        let done = crate::log::repair::rewrite(&path, &out, proto::Limits::default(), crate::config::ChangedBlocks::Keep).unwrap();
        let lost: u64 = done.damage.iter().map(|range| range.last_byte - range.first_byte).sum();
        prop_assert_eq!(done.bytes + lost + done.torn_bytes, bytes.len() as u64);
        prop_assert_eq!(all(&out).len() as u64, done.updates);
        prop_assert!(done.damage.windows(2).all(|pair| pair[0].last_byte <= pair[1].first_byte));
    }
}
