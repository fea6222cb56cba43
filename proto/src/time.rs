//! Constants of q's calendar: times count from 2000.01.01, and every day has 86,400 seconds.

/// Nanoseconds of a day.
pub const DAY_NS: i64 = 86_400_000_000_000;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;
/// Seconds from the Unix epoch (1970.01.01) to 2000.01.01.
pub const EPOCH_UNIX_S: i64 = 946_684_800;
