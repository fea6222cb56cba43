//! Arguments of clients' calls.

use proto::View;

/// Returns the date that is the first argument, if it is one and not null.
pub(super) fn date_argument(args: &[View<'_>]) -> Option<i32> {
    let date = args.first().filter(|date| date.type_code() == -proto::types::DATE)?;
    date.atom::<i32>().filter(|date| *date != proto::types::NULL_INT)
}

/// Returns a handle, which clients send as an int or a long.
pub(super) fn handle_argument(view: &View<'_>) -> Option<i32> {
    match view.type_code() {
        -6 => view.atom::<i32>(),
        -7 => view.atom::<i64>().and_then(|handle| i32::try_from(handle).ok()),
        _ => None,
    }
}
