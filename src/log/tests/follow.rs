//! What a copy of a log needs: checksums of its beginnings, the cut to a fork, and a lock that takes no epoch.

use super::support::{CHUNK, DAY, Folder, update, updates};
use crate::config::Durability;
use crate::env::Env;
use crate::log::index::{BLOCK_BYTES, ENTRY_BYTES};
use crate::log::{
    Locked, LogId, LogReader, LogSource, LogWriter, Mark, Next, block_ends, blocks_from, cut_back, prefix_sums,
    queue_path, record_ends, set_aside, side_path, whole_records,
};
use proto::Limits;

fn disk() -> std::sync::Arc<dyn crate::env::Disk> {
    Env::system().disk
}

/// A log of several blocks, closed in order.
fn long_log(folder: &Folder) -> Vec<u8> {
    let path = folder.with(&updates(1_500));
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.len() as u64 > 3 * BLOCK_BYTES);
    bytes
}

#[test]
fn the_checksum_of_a_beginning_is_that_of_its_bytes() {
    let folder = Folder::new();
    let bytes = long_log(&folder);
    let source = LogSource::at(folder.log());
    let ends = block_ends(&*disk(), &source);
    let mut draw = fastrand::Rng::with_seed(5);
    for round in 0..60 {
        let mut offsets: Vec<u64> = (0..draw.usize(1..9)).map(|_| draw.u64(0..=bytes.len() as u64)).collect();
        offsets.extend(ends.iter().map(|end| end.offset_bytes).filter(|_| draw.bool()));
        offsets.sort_unstable();
        let wanted: Vec<_> = offsets.iter().map(|at| Some(crc32c::crc32c(&bytes[..*at as usize]))).collect();
        assert_eq!(prefix_sums(&*disk(), &source, &offsets).unwrap(), wanted, "{offsets:?}");
        if round == 30 {
            std::fs::remove_file(side_path(&folder.log())).unwrap();
        }
    }
    let past = [bytes.len() as u64, bytes.len() as u64 + 1];
    assert_eq!(prefix_sums(&*disk(), &source, &past).unwrap()[1], None);
}

#[test]
fn a_block_that_has_other_bytes_by_now_counts_with_those_that_were_written() {
    let folder = Folder::new();
    let bytes = long_log(&folder);
    let mut changed = bytes.clone();
    changed[100] ^= 1;
    std::fs::write(folder.log(), changed).unwrap();
    let all = [bytes.len() as u64];
    let sums = prefix_sums(&*disk(), &LogSource::at(folder.log()), &all).unwrap();
    assert_eq!(sums, [Some(crc32c::crc32c(&bytes))]);
}

#[test]
fn blocks_prove_a_copy_up_to_where_it_goes() {
    let folder = Folder::new();
    let bytes = long_log(&folder);
    let source = LogSource::at(folder.log());
    let ends: Vec<u64> = block_ends(&*disk(), &source).iter().map(|end| end.offset_bytes).collect();
    let all = blocks_from(&*disk(), &source, 8, bytes.len() as u64, 99);
    assert_eq!(all.iter().map(|block| block.offset_bytes + block.length_bytes).collect::<Vec<_>>(), ends);
    assert_eq!(blocks_from(&*disk(), &source, ends[0], ends[2] - 1, 99), all[1..2]);
    assert_eq!(blocks_from(&*disk(), &source, 8, bytes.len() as u64, 2), all[..2]);
    let crc = |block: &crate::log::Sample| {
        crc32c::crc32c(&bytes[block.offset_bytes as usize..(block.offset_bytes + block.length_bytes) as usize])
    };
    assert!(all.iter().all(|block| block.crc == crc(block)));
}

#[test]
fn a_log_that_is_cut_back_is_continued_from_there_and_what_was_cut_off_is_kept() {
    let limits = Limits::default();
    let all = updates(1_500);
    for keep in [0, 1, 700, 1_499] {
        let folder = Folder::new();
        let bytes = long_log(&folder);
        let end = Mark { offset_bytes: bytes.len() as u64, index: 1_500 };
        let first = Mark { offset_bytes: 8, index: 0 };
        let ends = record_ends(&*disk(), &folder.log(), first, end, &limits).unwrap();
        assert_eq!((ends.len(), ends.last()), (1_500, Some(&end)));
        let at = if keep == 0 { first } else { ends[keep - 1] };
        let kept = cut_back(&*disk(), &folder.log(), at).unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), bytes[at.offset_bytes as usize..]);
        let (mut writer, report) = folder.open();
        assert_eq!((report.updates, report.missing, report.cut, writer.tip()), (keep as u64, 0, None, keep as u64));
        writer.append(&update("trade", 7, 3), 1).unwrap();
        writer.close().unwrap();
        let mut reader = LogReader::open(&Env::system(), &folder.log(), limits, CHUNK).unwrap();
        let mut records = Vec::new();
        while let Next::Chunk(chunk) = reader.next_chunk(CHUNK, u64::MAX).unwrap() {
            records.extend(chunk.iter().map(|(_, record)| record.to_vec()));
        }
        assert_eq!((&records[..keep], &records[keep..]), (&all[..keep], &[update("trade", 7, 3)][..]));
        // A second cut at the same place takes another name.
        let again = cut_back(&*disk(), &folder.log(), at).unwrap();
        assert_ne!(again, kept);
        let days = crate::log::days::days(&*disk(), &folder.0, None).unwrap();
        assert_eq!(days.len(), 1, "both files are of the day: {days:?}");
    }
}

#[test]
fn a_log_that_is_set_aside_leaves_its_day_without_one() {
    let folder = Folder::new();
    let bytes = long_log(&folder);
    let queue = queue_path(&folder.log());
    std::fs::write(&queue, "q").unwrap();
    let schema = folder.0.join("no such file");
    let kept = set_aside(&*disk(), &folder.log(), &[queue.clone(), schema]).unwrap();
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    assert!(!folder.log().exists() && !queue.exists() && !side_path(&folder.log()).exists());
    let (writer, report) = folder.open();
    assert_eq!((report.updates, report.missing, writer.tip()), (0, 0, 0));
    drop(writer);
    assert_ne!(set_aside(&*disk(), &folder.log(), &[]).unwrap(), kept);
}

#[test]
fn records_are_counted_up_to_the_first_that_is_not_whole() {
    let limits = Limits::default();
    let (one, two) = (update("trade", 1, 2), update("quote", 5, 1));
    let mut bytes = [one.clone(), two.clone()].concat();
    assert_eq!(whole_records(&bytes, &limits), [one.len(), two.len()]);
    bytes.pop();
    assert_eq!(whole_records(&bytes, &limits), [one.len()]);
    assert!(whole_records(b"\0\0", &limits).is_empty());
}

#[test]
fn a_follower_takes_no_epoch_and_the_writer_after_it_has_a_higher_one_than_its_leader() {
    let folder = Folder::new();
    let options = || folder.options(Durability::Os);
    let (mut locked, id) = Locked::take_to_follow(&options()).unwrap();
    assert_eq!(
        (id, std::fs::read(folder.lock()).unwrap().len()),
        (None, 0),
        "nothing is written before it is known whom to follow"
    );
    locked.adopt(LogId(7), 41).unwrap();
    let (mut log, report) = LogWriter::open_locked(locked, options(), DAY).unwrap();
    assert_eq!((report.epoch, log.writer_id().log), (41, LogId(7)));
    for update in updates(40) {
        log.append(&update, 1).unwrap();
    }
    log.adopt(43).unwrap();
    // It opens the log again without closing it for others, as after a cut.
    let locked = log.release().unwrap();
    assert!(Locked::take(&options()).is_err());
    let (log, report) = LogWriter::open_locked(locked, options(), DAY).unwrap();
    assert_eq!((report.updates, log.epoch()), (40, 43));
    log.close().unwrap();

    let (locked, id) = Locked::take_to_follow(&options()).unwrap();
    assert_eq!((id, locked.epoch()), (Some(LogId(7)), 43));
    drop(locked);
    let (log, _) = folder.open();
    assert_eq!((log.epoch(), log.writer_id().log), (44, LogId(7)));
}

#[test]
fn a_lost_lock_file_does_not_lose_the_epoch_of_the_leader() {
    let folder = Folder::new();
    let (mut locked, _) = Locked::take_to_follow(&folder.options(Durability::Os)).unwrap();
    locked.adopt(LogId(7), 41).unwrap();
    let (log, _) = LogWriter::open_locked(locked, folder.options(Durability::Os), DAY).unwrap();
    log.close().unwrap();
    std::fs::write(folder.lock(), [0; 2 * ENTRY_BYTES]).unwrap();
    let (log, _) = folder.open();
    assert_eq!((log.epoch(), log.writer_id().log), (42, LogId(7)));
}
