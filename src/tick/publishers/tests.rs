use super::*;
use proptest::prelude::*;

const LIMITS: PublisherLimits = PublisherLimits { ids: 3, id_bytes: 8 };

fn caller(conn: u32) -> Caller<'static, u32> {
    Caller { conn, user: b"ann", is_operator: false }
}

fn publishers() -> Publishers<u32> {
    Publishers::new(LIMITS)
}

/// Publishes as the tickerplant does; returns what it decided.
fn publish(of: &mut Publishers<u32>, id: &[u8], seq: i64, conn: u32, index: u64) -> Result<Freshness, Fault> {
    let freshness = of.freshness(id, seq, caller(conn))?;
    if freshness == Freshness::New {
        of.accepted(id, Last { seq, index: Some(index) }, index + 1);
    }
    Ok(freshness)
}

#[test]
fn a_number_is_accepted_once_and_gaps_are_allowed() {
    let mut of = publishers();
    assert_eq!(of.hold(b"a", caller(1)), Ok(None));
    assert_eq!(publish(&mut of, b"a", 10, 1, 0), Ok(Freshness::New));
    assert_eq!(publish(&mut of, b"a", 10, 1, 9), Ok(Freshness::Duplicate(Some(0))));
    assert_eq!(publish(&mut of, b"a", 25, 1, 1), Ok(Freshness::New));
    assert_eq!(publish(&mut of, b"a", 24, 1, 9), Ok(Freshness::Duplicate(None)));
    assert_eq!(of.hold(b"a", caller(1)), Ok(Some(25)));
    of.new_day();
    assert_eq!(publish(&mut of, b"a", 25, 1, 0), Ok(Freshness::Duplicate(None)));
    assert_eq!(publish(&mut of, b"a", 26, 1, 0), Ok(Freshness::New));
}

#[test]
fn an_id_belongs_to_its_user_and_to_the_connection_that_asked_last() {
    let mut of = publishers();
    assert!(matches!(publish(&mut of, b"a", 1, 1, 0), Err(Fault::NotHeld { .. })));
    of.hold(b"a", caller(1)).expect("free");
    of.hold(b"a", caller(2)).expect("of the same user");
    assert!(matches!(publish(&mut of, b"a", 1, 1, 0), Err(Fault::NotHeld { .. })), "an earlier connection's");
    assert_eq!(publish(&mut of, b"a", 1, 2, 0), Ok(Freshness::New));
    let bob = Caller { conn: 3, user: b"bob", is_operator: false };
    assert!(matches!(of.hold(b"a", bob), Err(Fault::Owner { .. })));
    assert!(matches!(of.freshness(b"a", 2, bob), Err(Fault::Owner { .. })));
    assert_eq!(of.hold(b"a", Caller { is_operator: true, ..bob }), Ok(Some(1)));
    assert_eq!(of.owner(b"a"), Some(&b"ann"[..]));
}

#[test]
fn no_number_ends_an_id_for_good() {
    let mut of = publishers();
    of.hold(b"a", caller(1)).expect("room");
    let fault = publish(&mut of, b"a", i64::MAX, 1, 0).expect_err("nothing could follow 0W");
    assert_eq!((fault.term(), of.hold(b"a", caller(1))), ("domain", Ok(None)));
    assert_eq!(publish(&mut of, b"a", i64::MAX - 1, 1, 0), Ok(Freshness::New));
}

#[test]
fn the_number_of_a_rejected_update_is_free_taken_or_passed() {
    let mut of = publishers();
    // Its publisher has gone, and nothing was accepted from the id.
    assert_eq!(of.standing(b"a", 7, b"ann"), Ok(Standing::Free));
    assert_eq!(of.owner(b"a"), Some(&b"ann"[..]));
    of.accepted(b"a", Last { seq: 7, index: Some(0) }, 1);
    for (seq, standing) in [(6, Standing::Passed), (7, Standing::Taken), (8, Standing::Free)] {
        assert_eq!(of.standing(b"a", seq, b"ann"), Ok(standing), "{seq}");
    }
    for id in [b"b", b"c"] {
        of.hold(id, caller(1)).expect("room");
    }
    assert_eq!(of.standing(b"d", 1, b"ann"), Err(Fault::TooMany { most: of.len() }));
}

#[test]
fn the_error_of_an_id_not_held_begins_with_what_to_do() {
    let mut of = publishers();
    let unused = of.freshness(b"a", 1, caller(1)).expect_err("nobody has called .u.seq").to_string();
    assert!(unused.starts_with("call .u.seq[`a] on this connection before the first number"), "{unused}");
    of.hold(b"a", caller(1)).expect("free");
    of.hold(b"a", caller(2)).expect("of the same user");
    let taken = of.freshness(b"a", 1, caller(1)).expect_err("another connection's").to_string();
    assert!(taken.starts_with("another connection holds a,") && taken.contains("stop this publisher"), "{taken}");
}

#[test]
fn ids_are_bounded_and_unused_ones_forgotten() {
    let mut of = publishers();
    for id in [b"a", b"b", b"c"] {
        of.hold(id, caller(1)).expect("room");
    }
    assert_eq!(of.hold(b"d", caller(1)), Err(Fault::TooMany { most: 3 }));
    assert_eq!(of.hold(b"123456789", caller(1)), Err(Fault::TooLong { bytes: 9, most: 8 }));
    assert_eq!(of.freshness(b"123456789", 1, caller(1)), Err(Fault::TooLong { bytes: 9, most: 8 }));
    publish(&mut of, b"a", 1, 1, 0).expect("held");
    of.closed(1);
    assert_eq!(of.len(), 1);
    assert_eq!((of.hold(b"d", caller(2)), of.hold(b"a", caller(2))), (Ok(None), Ok(Some(1))));
    assert_eq!(
        (of.hold(b"", caller(2)), of.freshness(b"a", i64::MIN, caller(2))),
        (Err(Fault::Null), Err(Fault::Null))
    );
}

#[test]
fn what_did_not_reach_the_file_was_not_accepted() {
    let mut of = publishers();
    of.hold(b"a", caller(1)).expect("room");
    for (seq, index) in [(1, 0), (2, 1), (3, 2)] {
        publish(&mut of, b"a", seq, 1, index).expect("held");
    }
    of.written(1);
    of.failed(1);
    assert!(
        matches!(of.freshness(b"a", 2, caller(1)), Err(Fault::NotHeld { .. })),
        "a later number must not hide a lost one"
    );
    assert_eq!(of.hold(b"a", caller(1)), Ok(Some(1)));
}

#[test]
fn what_is_buffered_while_the_disk_is_full_stays_accepted() {
    let mut of = publishers();
    of.hold(b"a", caller(1)).expect("room");
    for (seq, index) in [(1, 0), (2, 1), (3, 2)] {
        publish(&mut of, b"a", seq, 1, index).expect("held");
    }
    of.written(1);
    of.failed(2);
    assert_eq!(of.hold(b"a", caller(1)), Ok(Some(2)), "the third was in the write that failed");
    of.failed(1);
    assert_eq!(of.hold(b"a", caller(1)), Ok(Some(1)), "the log has failed for good");
}

/// An event at the tickerplant.
#[derive(Clone, Debug)]
enum Event {
    Hold {
        id: u8,
        conn: u32,
    },
    Publish {
        id: u8,
        conn: u32,
        seq: i64,
    },
    Written,
    Failed,
    NewDay,
    Closed {
        conn: u32,
    },
    /// Saved, and restored from what a log has.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let (id, conn) = (0..3u8, 0..3u32);
    prop_oneof![
        3 => (id.clone(), conn.clone()).prop_map(|(id, conn)| Event::Hold { id, conn }),
        9 => (id, conn.clone(), 0..30i64).prop_map(|(id, conn, seq)| Event::Publish { id, conn, seq }),
        2 => Just(Event::Written),
        1 => Just(Event::Failed),
        1 => Just(Event::NewDay),
        1 => conn.prop_map(|conn| Event::Closed { conn }),
        1 => Just(Event::Restart),
    ]
}

/// The definition, slowly: all updates in the log and in the buffer, and who asked last.
#[derive(Default)]
struct Reference {
    /// Id, number, and index in today's log.
    logged: Vec<(u8, i64, Option<u64>)>,
    buffered: Vec<(u8, i64, Option<u64>)>,
    holders: [Option<u32>; 3],
    tip: u64,
}

impl Reference {
    fn last(&self, id: u8) -> Option<(i64, Option<u64>)> {
        let all = self.logged.iter().chain(&self.buffered);
        all.filter(|(of, ..)| *of == id).map(|(_, seq, index)| (*seq, *index)).max_by_key(|(seq, _)| *seq)
    }

    fn publish(&mut self, id: u8, conn: u32, seq: i64) -> Option<Freshness> {
        if self.holders[usize::from(id)] != Some(conn) {
            return None;
        }
        match self.last(id) {
            Some((last, index)) if seq <= last => Some(Freshness::Duplicate(index.filter(|_| seq == last))),
            _ => {
                self.buffered.push((id, seq, Some(self.tip)));
                self.tip += 1;
                Some(Freshness::New)
            }
        }
    }
}

proptest! {
    #[test]
    fn every_decision_is_that_of_the_definition(events in prop::collection::vec(event(), 1..200)) {
        let mut of = publishers();
        let mut reference = Reference::default();
        for event in events {
            match event {
                Event::Hold { id, conn } => {
                    reference.holders[usize::from(id)] = Some(conn);
                    let last = of.hold(&[id + 1], caller(conn));
                    prop_assert_eq!(last, Ok(reference.last(id).map(|(seq, _)| seq)));
                }
                Event::Publish { id, conn, seq } => {
                    let index = reference.tip;
                    let freshness = publish(&mut of, &[id + 1], seq, conn, index).ok();
                    prop_assert_eq!(freshness, reference.publish(id, conn, seq));
                }
                Event::Written => {
                    of.written(reference.tip);
                    reference.logged.append(&mut reference.buffered);
                }
                Event::Failed => {
                    of.failed(0);
                    reference.buffered.clear();
                    reference.holders = [None; 3];
                    reference.tip = reference.logged.iter().filter_map(|(.., index)| *index).max().map_or(0, |last| last + 1);
                }
                Event::NewDay => {
                    of.new_day();
                    reference.logged.append(&mut reference.buffered);
                    reference.logged.iter_mut().for_each(|(.., index)| *index = None);
                    reference.tip = 0;
                }
                Event::Closed { conn } => {
                    of.closed(conn);
                    reference.holders.iter_mut().filter(|holder| **holder == Some(conn)).for_each(|holder| *holder = None);
                }
                Event::Restart => {
                    of = publishers();
                    reference.logged.append(&mut reference.buffered);
                    for (id, seq, index) in &reference.logged {
                        of.restore(&[id + 1], b"ann", Last { seq: *seq, index: *index });
                    }
                    reference.holders = [None; 3];
                }
            }
        }
        let saved: Vec<_> = of.accepted_from().map(|(id, _, last)| (id[0] - 1, last.seq)).collect();
        let expected: Vec<_> = (0..3).filter_map(|id| Some((id, reference.last(id)?.0))).collect();
        prop_assert_eq!(saved, expected);
    }
}
