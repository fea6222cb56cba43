//! What the tickerplant of a simulated world is set up with, whichever world it is.

use crate::q::Rules;
use crate::tick::globals::Globals;
use crate::tick::query::Bounds;
use crate::tick::service::ServiceOptions;
use std::time::Duration;

/// A tickerplant's service. Virtual time does not pass while a query runs, so that no limit of its time is ever met.
pub fn service_options(codec: proto::Limits) -> ServiceOptions {
    let bounds = Bounds { time: Duration::from_secs(3600), memory_bytes: 64 << 20 };
    ServiceOptions {
        codec,
        globals: Globals::new(Vec::new(), 1 << 20),
        query: bounds,
        own_query: bounds,
        threads: 1,
        handler: bounds,
        rules: Rules::new(&[], false, false, None),
        timer: None,
    }
}
