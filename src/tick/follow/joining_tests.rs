use super::*;

const DAY: Day = 9_000;

/// A log as the lengths and contents of its records: the checksum of a beginning is a hash of those in it.
#[derive(Clone, Debug, Default)]
struct Log(Vec<(u64, u64)>);

impl Log {
    fn ends(&self) -> Vec<Mark> {
        let mut at = FIRST;
        let next = |(length, _): &(u64, u64)| {
            at = Mark { offset_bytes: at.offset_bytes + length, index: at.index + 1 };
            at
        };
        self.0.iter().map(next).collect()
    }

    fn end(&self) -> Mark {
        self.ends().last().copied().unwrap_or(FIRST)
    }

    /// Every byte of a record has its content, so that a beginning may end inside a record.
    fn sum(&self, offset: u64) -> Option<u32> {
        let bytes: Vec<u8> =
            self.0.iter().flat_map(|(length, content)| vec![*content as u8; *length as usize]).collect();
        let taken = bytes.get(..usize::try_from(offset.checked_sub(FIRST.offset_bytes)?).ok()?)?;
        Some(crc32c::crc32c(taken))
    }
}

fn leader(epoch: u64) -> Leader {
    Leader { id: LogId(1), epoch, began: None, date: DAY, dates: vec![DAY - 1, DAY] }
}

fn own(log: &Log, epoch: u64) -> Own {
    Own { id: Some(LogId(1)), epoch, newest: Some((DAY, log.end())), earlier: None }
}

/// Runs to the end; also returns the number of requests.
fn run(own: Own, mine: &Log, leader: Leader, theirs: &Log, block: usize) -> (Result<Action, Refused>, usize) {
    run_after((own, mine), (leader, theirs), block, [mine, theirs])
}

/// As [`run`], after these logs of the day before.
fn run_after(
    (own, mine): (Own, &Log),
    (leader, theirs): (Leader, &Log),
    block: usize,
    before: [&Log; 2],
) -> (Result<Action, Refused>, usize) {
    let mut joining = Joining::new(own, leader);
    let mut requests = 0;
    let mut event = Event::Start;
    loop {
        event = match joining.step(event) {
            Ok(Action::Compare(day, offsets)) => {
                let [mine, theirs] = if day == DAY { [mine, theirs] } else { before };
                requests += 1;
                assert!(offsets.len() <= MAX_PROBES && offsets.is_sorted() && requests < 20);
                Event::Sums(offsets.iter().map(|offset| (mine.sum(*offset), theirs.sum(*offset))).collect())
            }
            Ok(Action::ListBlocks) => Event::Ends(mine.ends().into_iter().skip(block - 1).step_by(block).collect()),
            Ok(Action::ListRecords(from, to)) => {
                let between = |end: &Mark| from.offset_bytes < end.offset_bytes && end.offset_bytes <= to.offset_bytes;
                Event::Ends(mine.ends().into_iter().filter(between).collect())
            }
            other => return (other, requests),
        };
    }
}

#[test]
fn a_fork_is_found_to_the_update_whatever_follows_it() {
    let mut draw = fastrand::Rng::with_seed(3);
    for _ in 0..3_000 {
        let counts = [draw.usize(0..250), draw.usize(1..9), draw.usize(0..8)];
        let block = draw.usize(1..9);
        let mut records =
            counts.map(|count| (0..count).map(|_| (draw.u64(1..9), draw.u64(0..250))).collect::<Vec<_>>());
        let [common, alone, others] = &mut records;
        // The leader has other updates from there on, which may have the same beginning, or none.
        if let Some(first) = others.first_mut() {
            *first = (alone[0].0, alone[0].1 ^ 1);
        }
        let mine = Log([common.as_slice(), alone.as_slice()].concat());
        let theirs = Log([common.as_slice(), others.as_slice()].concat());
        let fork = Log(common.clone()).end();
        let (found, requests) = run(own(&mine, 3), &mine, leader(4), &theirs, block);
        assert_eq!(found, Ok(Action::CutBack(fork)));
        assert!(requests <= 4, "{requests}");
        // An equal epoch proves nothing about who is right.
        let refused = Refused::Ahead { fork: fork.index, own: mine.end().index, epoch: 4 };
        assert_eq!(run(own(&mine, 4), &mine, leader(4), &theirs, block).0, Err(refused));
    }
}

#[test]
fn logs_that_differ_before_the_leaders_epoch_began_are_left_alone() {
    let log = |fork: u64| Log((0..20).map(|at| (5, if at < fork { at } else { at + 100 })).collect());
    let (mine, began) = (log(20), 12);
    for fork in 0..20 {
        let theirs = log(fork);
        let joins = |leader: Leader| run(own(&mine, 3), &mine, leader, &theirs, 4).0;
        let changed = Refused::Changed { fork, began, epoch: 4 };
        let cut = Action::CutBack(Log(mine.0[..fork as usize].to_vec()).end());
        let expected = if fork < began { Err(changed) } else { Ok(cut.clone()) };
        assert_eq!(joins(Leader { began: Some(began), ..leader(4) }), expected, "fork at {fork}");
        // An epoch in between may have begun earlier, and so may one that two processes had.
        assert_eq!(joins(Leader { began: Some(began), ..leader(5) }), Ok(cut.clone()));
        assert_eq!(joins(leader(4)), Ok(cut));
    }
}

#[test]
fn a_beginning_of_the_leaders_log_is_copied_on_after_one_request() {
    let log = |updates: u64| Log((0..updates).map(|at| (3 + at % 5, at)).collect());
    for (mine, theirs) in [(0, 0), (0, 5), (7, 7), (7, 90)] {
        let (mine, theirs) = (log(mine), log(theirs));
        assert_eq!(run(own(&mine, 3), &mine, leader(3), &theirs, 4), (Ok(Action::Copy), 1));
    }
}

#[test]
fn a_leader_of_an_earlier_epoch_is_followed_by_nobody() {
    let log = Log(vec![(5, 1)]);
    let refused = Refused::EarlierLeader { own: 5, leader: 4 };
    assert_eq!(run(own(&log, 5), &log, leader(4), &log, 1).0, Err(refused));
}

#[test]
fn logs_of_another_directory_are_left_alone() {
    let log = Log(vec![(5, 1)]);
    let other = Own { id: Some(LogId(2)), ..own(&log, 1) };
    let refused = Refused::OtherLog { own: LogId(2), leader: LogId(1) };
    assert_eq!(run(other.clone(), &log, leader(4), &log, 1).0, Err(refused.clone()));
    assert_eq!(run(Own { newest: None, ..other }, &log, leader(4), &log, 1).0, Err(refused));
    let unnamed = Own { id: None, ..own(&log, 0) };
    assert_eq!(run(unnamed, &log, leader(4), &log, 1).0, Err(Refused::NoIdentity));
}

#[test]
fn an_empty_directory_begins_with_the_leaders_day() {
    let none = Own { id: None, epoch: 0, newest: None, earlier: None };
    let log = Log::default();
    assert_eq!(run(none, &log, leader(4), &log, 1), (Ok(Action::Begin(DAY)), 0));
}

#[test]
fn a_day_that_the_leader_does_not_have_is_skipped_or_refused() {
    let log = Log(vec![(5, 1)]);
    let of = |date| Own { newest: Some((date, log.end())), ..own(&log, 3) };
    assert_eq!(run(of(DAY - 5), &log, leader(4), &log, 1).0, Ok(Action::Skip(DAY - 1)));
    assert_eq!(run(of(DAY + 1), &log, leader(3), &log, 1).0, Err(Refused::LaterDay));
    // It ended the day, and another one took over that had not.
    assert_eq!(run(of(DAY + 1), &log, leader(4), &log, 1).0, Ok(Action::SetAside));
}

#[test]
fn a_day_without_a_common_update_is_cut_only_if_the_day_before_is_the_same() {
    let (mine, theirs) = (Log(vec![(5, 1), (5, 2)]), Log(vec![(5, 3)]));
    let found = |day, before: [&Log; 2]| {
        let own = Own { earlier: Some((day, before[0].end().offset_bytes)), ..own(&mine, 3) };
        run_after((own, &mine), (leader(4), &theirs), 1, before).0
    };
    let [one, two, other] = [vec![(5, 1)], vec![(5, 1), (5, 2)], vec![(5, 4)]].map(Log);
    assert_eq!(found(DAY - 1, [&one, &one]), Ok(Action::CutBack(FIRST)));
    for before in [[&one, &two], [&two, &one], [&one, &other]] {
        assert_eq!(found(DAY - 1, before), Ok(Action::SetAside));
        assert_eq!(found(DAY - 2, before), Ok(Action::CutBack(FIRST)));
    }
}

#[test]
fn a_day_without_updates_is_copied_only_if_the_day_before_is_the_same() {
    let (mine, theirs) = (Log::default(), Log(vec![(5, 3)]));
    let [one, two, other] = [vec![(5, 1)], vec![(5, 1), (5, 2)], vec![(5, 4)]].map(Log);
    let found = |epoch, before: [&Log; 2]| {
        let own = Own { earlier: Some((DAY - 1, before[0].end().offset_bytes)), ..own(&mine, 3) };
        run_after((own, &mine), (leader(epoch), &theirs), 1, before).0
    };
    assert_eq!(found(4, [&two, &two]), Ok(Action::Copy));
    for before in [[&one, &two], [&two, &one], [&one, &other]] {
        assert_eq!(found(3, before), Err(Refused::EarlierDay));
        assert_eq!(found(4, before), Ok(Action::SetAside));
    }
}
