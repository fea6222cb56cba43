//! The fixed points of q's calendar: moments count from 2000.01.01, and every day has 86,400 seconds.

/// Nanoseconds of a day.
pub const DAY_NS: i64 = 86_400_000_000_000;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;
/// Seconds from 1970.01.01, where Unix time begins, to 2000.01.01.
pub const EPOCH_UNIX_S: i64 = 946_684_800;
