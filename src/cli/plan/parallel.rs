//! Work on several threads, with a line of progress.

use crate::cli::progress::Progress;
use crate::sys;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Returns the result of each item, in their order.
///
/// # Errors
/// The first item's error, by their order.
pub fn each<T: Sync, R: Send>(
    what: &str,
    items: &[T],
    work: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::with_capacity(items.len()), Progress::new(what)));
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            let (results, progress) = &mut *done.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((index, result));
            progress.of(results.len(), items.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len());
    std::thread::scope(|scope| {
        // This thread works, too.
        for _ in 1..threads {
            // Without it the others do its work.
            let _ = sys::stack::thread("plan".to_string()).spawn_scoped(scope, run);
        }
        run();
    });
    let (mut results, _) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_and_the_first_error_is_returned() {
        let items: Vec<u64> = (0..1000).collect();
        let squares = each("squares", &items, |number| Ok(number * number)).unwrap();
        assert!(squares.iter().zip(&items).all(|(square, number)| *square == number * number));
        let odd = |number: &u64| if *number > 500 { Err(format!("{number}")) } else { Ok(()) };
        assert_eq!(each("odd", &items, odd), Err("501".to_string()));
        assert_eq!(each("none", &[], |_: &u64| Ok(())), Ok(Vec::new()));
    }
}
