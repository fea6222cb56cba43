//! Service options that every simulated tickerplant shares.

use elastick::net::account::Account;
use elastick::q::Rules;
use elastick::tick::evaluation::Bounds;
use elastick::tick::globals::Globals;
use elastick::tick::service::ServiceOptions;
use std::time::Duration;

/// Returns options of a tickerplant's service. Virtual time stands still during a query, so that no query timeout ever fires.
pub fn service_options(codec: proto::Limits) -> ServiceOptions {
    let bounds = Bounds { time: Duration::from_secs(3600), memory_bytes: 64 << 20, symbols: 100_000 };
    ServiceOptions {
        codec,
        pending: Account::new(u64::MAX),
        globals: Globals::new(Vec::new(), 1 << 20, 1 << 20),
        query: bounds,
        threads: 1,
        handler: bounds,
        rules: Rules::new(&[], false, false, None),
        timer: None,
    }
}
