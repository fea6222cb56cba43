//! Every limit of the system: name, default, unit and meaning. Each is also an option `--limit-…`.

use super::options::{Opt, OptionSpec, Program};
use super::settings::{ConfigError, Settings};
use super::units;

use Program::{Feed, Log, Rdb, Tick};

/// `field, "option", unit, value, "value as text", [programs], "help";` defines a field of [`Limits`] and a row of `LIMITS`.
macro_rules! limits {
    ($($field:ident, $name:literal, $unit:ident, $value:expr, $default:literal, [$($program:ident),*], $help:literal;)*) => {
        /// Effective limits. The name contains the unit; the option's help says what a field limits.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $help] pub $field: u64,)*
        }

        /// One typed option for each limit.
        #[allow(non_upper_case_globals)]
        pub mod entries {
            use super::*;
            $(pub static $field: Opt<u64> = Opt {
                    spec: OptionSpec {
                        name: $name,
                        letter: None,
                        position: 0,
                        value: stringify!($unit),
                        default: Some($default),
                        help: $help,
                        empty: false,
                    variables: &[],
                        programs: &[$($program),*],
                        check: |text| units::$unit(text).map(drop),
                    },
                    parse: units::$unit,
                };)*
        }

        pub static LIMITS: &[&OptionSpec] = &[$(&entries::$field.spec),*];

        /// A limit by name, for counters of rejections.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Limit { $($field,)* }

        impl Limit {
            /// All limits, in the order of the table.
            pub const ALL: &[Limit] = &[$(Limit::$field),*];

            /// Returns the option; the unit is the spec's `value`: `bytes`, `count` or `nanoseconds`.
            pub fn spec(self) -> &'static OptionSpec {
                match self { $(Limit::$field => &entries::$field.spec,)* }
            }
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($field: $value,)* }
            }
        }

        impl Limits {
            /// Returns the value of a limit, in its unit.
            pub fn get(&self, limit: Limit) -> u64 {
                match limit { $(Limit::$field => self.$field,)* }
            }

            /// Returns the limits set for a program; those of other programs keep their defaults.
            pub fn resolve(settings: &Settings) -> Result<Limits, ConfigError> {
                Ok(Limits { $($field: match settings.find(&entries::$field)? {
                    Some(value) => value,
                    None => $value,
                },)* })
            }
        }
    };
}

limits! {
    message_bytes, "limit-message", bytes, 256 << 20, "256MiB", [Tick, Rdb, Feed, Log],
        "Longest message or log record accepted; over a connection not more than --limit-inbox either";
    decompressed_bytes, "limit-decompressed", bytes, 1 << 30, "1GiB", [Tick, Rdb],
        "Longest message after decompression";
    depth, "limit-depth", count, 64, "64", [Tick, Rdb, Log],
        "Deepest nesting of lists in a message or log record";
    connections, "limit-connections", count, 4096, "4096", [Tick, Rdb],
        "Connections at the same time";
    handshake_bytes, "limit-handshake", bytes, 1 << 10, "1KiB", [Tick, Rdb],
        "Longest user, password and capability that a client may send";
    handshake_ns, "limit-handshake-time", nanoseconds, 5_000_000_000, "5s", [Tick, Rdb],
        "Time for a client to finish its handshake";
    inbox_bytes, "limit-inbox", bytes, 256 << 20, "256MiB", [Tick, Rdb],
        "Bytes of unfinished messages held for one connection";
    inboxes_bytes, "limit-inboxes", bytes, 2 << 30, "2GiB", [Tick, Rdb],
        "Bytes of unfinished messages held for all connections together";
    outbox_bytes, "limit-outbox", bytes, 64 << 20, "64MiB", [Tick, Rdb],
        "Bytes waiting for one subscriber before it is fed from the log instead; twice as many for one that does not read what it asked for";
    outboxes_bytes, "limit-outboxes", bytes, 1 << 30, "1GiB", [Tick, Rdb],
        "Bytes waiting for all connections together; above it none gets more than 1 MiB";
    lanes, "limit-lanes", count, 4096, "4096", [Tick],
        "Distinct subscriptions (tables, symbols, form of message) encoded apart";
    queue_subscribers, "limit-queue-subscribers", count, 1024, "1024", [Tick],
        "Subscribers in all queues together, lost ones not counted";
    quarantine_updates, "limit-quarantine-updates", count, 10_000, "10000", [Tick],
        "Refused updates kept to be looked at";
    quarantine_bytes, "limit-quarantine", bytes, 64 << 20, "64MiB", [Tick],
        "Bytes of refused updates kept to be looked at";
    symbols, "limit-symbols", count, 50_000_000, "50000000", [Tick, Rdb],
        "Distinct symbols interned by a process";
    query_time_ns, "limit-query-time", nanoseconds, 300_000_000_000, "5m", [Tick, Rdb],
        "Longest time a client's query may take on a node";
    handler_time_ns, "limit-handler-time", nanoseconds, 10_000_000_000, "10s", [Tick, Rdb],
        "Longest time that .z.pw, .z.po, .z.pc and their like may take";
    day_end_time_ns, "limit-day-end-time", nanoseconds, 600_000_000_000, "10m", [Rdb],
        "Longest time that .u.end of a start-up file may take; a node that ends with its day waits as long";
    clock_jump_ns, "limit-clock-jump", nanoseconds, 259_200_000_000_000, "72h", [Tick],
        "Furthest that the wall clock may jump and still end a day; after a longer jump days end by the steady clock. By hand no day is begun further ahead";
    clock_start_ns, "limit-clock-start", nanoseconds, 2_678_400_000_000_000, "744h", [Tick],
        "Furthest that the wall clock may be after the newest log at a start and begin a day; for one that is further, --today confirms the date";
    query_memory_bytes, "limit-query-memory", bytes, 4 << 30, "4GiB", [Tick, Rdb],
        "Most memory a client's query may take";
    globals_bytes, "limit-globals", bytes, 64 << 20, "64MiB", [Tick],
        "Bytes of all that clients define on the tickerplant, as it would travel";
    core_query_time_ns, "limit-core-query-time", nanoseconds, 20_000_000, "20ms", [Tick],
        "Longest processor time of a query that runs on the tickerplant's own thread";
    http_connections, "limit-http-connections", count, 64, "64", [Tick, Rdb],
        "HTTP connections at the same time";
    http_request_bytes, "limit-http-request", bytes, 8 << 10, "8KiB", [Tick, Rdb],
        "Longest head of an HTTP request";
    http_body_bytes, "limit-http-body", bytes, 1 << 20, "1MiB", [Tick, Rdb],
        "Longest body of an HTTP POST";
    web_message_bytes, "limit-web-message", bytes, 1 << 20, "1MiB", [Rdb],
        "Longest WebSocket message";
    http_time_ns, "limit-http-time", nanoseconds, 10_000_000_000, "10s", [Tick, Rdb],
        "Time for an HTTP client to send a request, and to take its answer";
    http_idle_ns, "limit-http-idle", nanoseconds, 120_000_000_000, "2m", [Tick, Rdb],
        "Time an HTTP connection is kept between two requests";
    log_read_chunk_bytes, "limit-log-read-chunk", bytes, 1 << 20, "1MiB", [Tick, Rdb, Feed, Log],
        "Bytes of the log read at once";
    log_buffer_bytes, "limit-log-buffer", bytes, 4 << 20, "4MiB", [Tick],
        "Bytes of the log held back under durability none";
}

impl Limits {
    /// Returns the codec's limits for one message or log record.
    pub fn codec(&self) -> proto::Limits {
        proto::Limits {
            max_message_bytes: self.message_bytes,
            max_decompressed_bytes: self.decompressed_bytes,
            max_depth: usize::try_from(self.depth).unwrap_or(usize::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_shown_are_the_defaults_used() {
        for program in Program::ALL {
            let resolved = Limits::resolve(&Settings::defaults(program)).unwrap();
            assert_eq!(resolved, Limits::default(), "{program:?}");
        }
    }
}
