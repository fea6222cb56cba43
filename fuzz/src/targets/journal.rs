//! The queue's journal, and the table restored from it.

use elastick::queue::{Date, Handle, Now, Params, Queue, QueueEvent, UpdateIndex, invariants, journal};

/// Day of every journal.
const DATE: Date = Date(9821);

/// Target `journal`: bodies of a journal's lines. The target adds the checksums, which no fuzzer guesses. A journal is restored or
/// rejected; a restored table is written and read as itself, and keeps the invariants in further steps.
pub fn journal(bytes: &[u8]) {
    let mut sealed = Vec::new();
    for body in bytes.split(|byte| *byte == b'\n') {
        sealed.extend_from_slice(format!("{:08x} ", crc32c::crc32c(body)).as_bytes());
        sealed.extend_from_slice(body);
        sealed.push(b'\n');
    }
    let Ok(found) = journal::read(&sealed) else { return };
    assert!(found.good_bytes <= sealed.len() as u64);
    let Ok(mut queue) = Queue::restore(Params::default(), DATE, &found.records) else { return };
    let snapshot = queue.snapshot();
    let again = journal::read(&snapshot.encode()).expect("a record of ours");
    assert_eq!(again.records.as_slice(), std::slice::from_ref(&snapshot));
    let same = Queue::restore(Params::default(), DATE, &again.records).expect("a table of ours");
    assert_eq!(same.snapshot(), snapshot);
    let tip = queue.tip();
    step(&mut queue, QueueEvent::Restored, tip, 1_000);
    let deadline = queue.next_deadline_ns().unwrap_or(2_000).clamp(1_000, i64::MAX);
    step(&mut queue, QueueEvent::Tick, tip, deadline);
    let handles: Vec<Handle> = queue.subscribers().iter().filter_map(|row| row.handle).collect();
    for handle in handles {
        step(&mut queue, QueueEvent::Disconnect { handle }, tip, deadline);
    }
    step(&mut queue, QueueEvent::DayEnd { new_date: Date(DATE.0 + 1) }, tip, deadline);
}

fn step(queue: &mut Queue, event: QueueEvent, tip: UpdateIndex, steady_ns: i64) {
    let told = format!("{event:?}");
    queue.step(event, tip, Now { steady_ns, ..Now::default() });
    invariants::check(queue).unwrap_or_else(|violation| panic!("after {told}: {violation}"));
}
