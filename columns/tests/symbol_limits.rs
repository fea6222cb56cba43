//! Bounds of the symbol table, which is one for the process: one test, in a process of its own.

use elastick_columns::table::symbol::{self, Bound, Budget, Limits, MAX_CLIENT_BYTES, TooManySymbols};

fn fill(prefix: &str, most: usize) -> Result<usize, TooManySymbols> {
    for i in 0..most {
        symbol::intern(format!("{prefix}{i:08}").as_bytes())?;
    }
    Ok(most)
}

fn as_client<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

fn in_evaluation<R>(limit: u64, work: impl FnOnce() -> R) -> R {
    let before = symbol::budget(Some(Budget::new(limit)));
    let result = work();
    symbol::budget(before);
    result
}

#[test]
fn each_part_of_the_table_has_its_bound() {
    symbol::set_limits(Limits { symbols: 100_000, bytes: 2 << 20, client_symbols: 1000 });
    assert!(symbol::intern(&[b'x'; MAX_CLIENT_BYTES + 1]).is_ok(), "without a main thread there are no clients");
    symbol::claim();

    // One evaluation, also on the main thread.
    let bound = |result: Result<usize, TooManySymbols>| result.map_err(|full| full.bound);
    assert_eq!(bound(in_evaluation(10, || fill("own", 11))), Err(Bound::Evaluation));
    assert_eq!(bound(as_client(|| in_evaluation(10, || fill("other", 11)))), Err(Bound::Evaluation));
    assert_eq!(symbol::usage().client_symbols, 20);

    // One symbol of a client.
    let long = as_client(|| symbol::intern(&[b'y'; MAX_CLIENT_BYTES + 1]).map(|_| 1));
    assert_eq!(long.expect_err("it is too long").to_string(), "a symbol of more than 65536 bytes");

    // All clients, in bytes and in number; memory decisions do not count theirs.
    let own_bytes = symbol::usage().own_bytes();
    let large = |i: u8| as_client(move || symbol::intern(&[&[i][..], &[b'z'; 30_000]].concat()).map(|_| 1));
    assert_eq!((1..=2).map(large).collect::<Result<Vec<_>, _>>(), Ok(vec![1, 1]));
    assert_eq!(bound(large(3)), Err(Bound::Clients));
    assert_eq!(bound(as_client(|| fill("c", 979))), Err(Bound::Clients));
    assert!(symbol::usage().own_bytes() <= own_bytes, "{own_bytes}: {:?}", symbol::usage());

    // Identifiers in source text and the main thread go on.
    assert!(as_client(|| symbol::intern_name(b"identifier")).is_ok());
    assert_eq!(fill("feed", 10_000), Ok(10_000));
    let bytes = (0..64u8).try_for_each(|i| symbol::intern(&[&[i][..], &[b'f'; 40_000]].concat()).map(drop));
    assert_eq!(bytes.expect_err("the bytes are used up").bound, Bound::Bytes);
    assert!(symbol::refusals(Bound::Bytes) == 1 && symbol::refusals(Bound::Evaluation) == 2);
}
