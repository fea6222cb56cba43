//! Arguments of clients' calls.

use proto::View;

/// Returns a handle, which clients send as an int or a long.
pub(super) fn handle_argument(view: &View<'_>) -> Option<i32> {
    match view.type_code() {
        -6 => view.atom::<i32>(),
        -7 => view.atom::<i64>().and_then(|handle| i32::try_from(handle).ok()),
        _ => None,
    }
}
