//! Every limit of the system: name, default, unit and meaning. Each is also an option `--limit-…`.

use super::options::{self, Opt, OptionSpec, Program};
use super::settings::{ConfigError, Settings};
use super::units;
use crate::table::symbol;

use Program::{Feed, Log, Rdb, Tick};

/// Unit of a limit's value, named after its parser in [`units`].
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    bytes,
    count,
    nanoseconds,
}

impl Unit {
    /// How `--help` names a value of this unit; its parser takes that notation.
    const fn notation(self) -> &'static str {
        match self {
            Unit::bytes => "SIZE",
            Unit::count => "COUNT",
            Unit::nanoseconds => "TIME",
        }
    }
}

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
                        value: Unit::$unit.notation(),
                        default: Some($default),
                        help: $help,
                        programs: &[$($program),*],
                        check: |text| units::$unit(text).map(drop),
                        ..options::BLANK
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

            /// Returns the option.
            pub fn spec(self) -> &'static OptionSpec {
                match self { $(Limit::$field => &entries::$field.spec,)* }
            }

            /// Returns the unit of [`Limits::get`].
            pub fn unit(self) -> Unit {
                match self { $(Limit::$field => Unit::$unit,)* }
            }
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($field: $value,)* }
            }
        }

        impl Limits {
            /// Returns the limits of the symbol table.
            pub fn of_symbols(&self) -> symbol::Limits {
                symbol::Limits {
                    symbols: self.symbols,
                    bytes: self.symbol_bytes,
                    client_symbols: self.client_symbols,
                }
            }

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
        "Maximum length of a message or log record; over a connection, --limit-inbox applies as well";
    decompressed_bytes, "limit-decompressed", bytes, 1 << 30, "1GiB", [Tick, Rdb],
        "Maximum length of a message after decompression";
    compression_ratio, "limit-compression-ratio", count, 32, "32", [Tick, Rdb],
        "Maximum ratio of a message's length after decompression to its length before; up to 1 MiB any is accepted";
    pending_bytes, "limit-pending", bytes, 1 << 30, "1GiB", [Tick, Rdb],
        "Messages being decompressed, waiting for a query thread or being evaluated, of all connections together";
    depth, "limit-depth", count, 64, "64", [Tick, Rdb, Log],
        "Maximum nesting of lists in a message or log record";
    connections, "limit-connections", count, 4096, "4096", [Tick, Rdb],
        "Maximum number of connections";
    address_connections, "limit-address-connections", count, 2048, "2048", [Tick, Rdb],
        "Maximum number of connections of one address";
    user_connections, "limit-user-connections", count, 1024, "1024", [Tick, Rdb],
        "Maximum number of connections of one user, where users are checked";
    user_queries, "limit-user-queries", count, 1024, "1024", [Tick, Rdb],
        "Maximum number of queries of one user that are in evaluation or wait for a query thread; a role may set another (users \
         file)";
    user_symbol_bytes, "limit-user-symbols", bytes, 16 << 20, "16MiB", [Tick, Rdb],
        "Symbols that the queries of one user add to a process, each with 64 bytes more; a role may set another";
    user_outbox_bytes, "limit-user-outbox", bytes, 512 << 20, "512MiB", [Tick, Rdb],
        "Send buffers of all connections of one user, where users are checked; above it each may hold at most 1 MiB. A role may set another";
    idle_ns, "limit-idle", nanoseconds, 0, "0", [Tick, Rdb],
        "Time after which a client is disconnected that neither sends nor receives anything, and has no subscription; 0 for never";
    half_open, "limit-half-open", count, 512, "512", [Tick, Rdb],
        "Maximum number of connections that have not logged in; above it the oldest one of the address with the most is closed";
    reserved_connections, "limit-reserved-connections", count, 64, "64", [Tick, Rdb],
        "Of --limit-connections, those that only users with the role node or operator may use";
    handshake_bytes, "limit-handshake", bytes, 16 << 10, "16KiB", [Tick, Rdb],
        "Maximum length of a handshake: user, password and capability byte; a password may be a token";
    handshake_ns, "limit-handshake-time", nanoseconds, 5_000_000_000, "5s", [Tick, Rdb],
        "Time within which a client must complete its handshake";
    logins, "limit-logins", count, 64, "64", [Tick, Rdb],
        "Maximum number of logins whose password hash (Argon2) waits to be computed";
    identity_logins, "limit-identity-logins", count, 64, "64", [Tick, Rdb],
        "Logins with a token that may wait for the issuer's keys, and as many that may wait for an LDAP server";
    identity_ns, "limit-identity-time", nanoseconds, 3_000_000_000, "3s", [Tick, Rdb],
        "Time within which an OpenID Connect issuer or an LDAP server must answer a request, or all those of a login";
    identity_bytes, "limit-identity-answer", bytes, 1 << 20, "1MiB", [Tick, Rdb],
        "Maximum length of an answer of an OpenID Connect issuer or an LDAP server";
    tls_handshakes, "limit-tls-handshakes", count, 1024, "1024", [Tick, Rdb],
        "Steps of TLS handshakes that may wait for a thread; a client beyond them is disconnected";
    inbox_bytes, "limit-inbox", bytes, 256 << 20, "256MiB", [Tick, Rdb],
        "Receive buffer of one connection: bytes of incomplete messages";
    inboxes_bytes, "limit-inboxes", bytes, 2 << 30, "2GiB", [Tick, Rdb],
        "Receive buffers of all connections together";
    outbox_bytes, "limit-outbox", bytes, 64 << 20, "64MiB", [Tick, Rdb],
        "Send buffer of one subscriber; a fuller one makes it a slow consumer, fed from the log. A client that \
         does not read replies may use twice as much";
    outboxes_bytes, "limit-outboxes", bytes, 1 << 30, "1GiB", [Tick, Rdb],
        "Send buffers of all connections together; above it each connection may hold at most 1 MiB";
    lanes, "limit-lanes", count, 4096, "4096", [Tick],
        "Maximum number of fan-out groups: distinct subscriptions (tables, symbols, message form)";
    queue_subscribers, "limit-queue-subscribers", count, 1024, "1024", [Tick],
        "Maximum number of subscribers in all queues together, lost ones not counted";
    followers, "limit-followers", count, 8, "8", [Tick],
        "Maximum number of tickerplants that copy the log of this one (--follow)";
    quarantine_updates, "limit-quarantine-updates", count, 10_000, "10000", [Tick],
        "Rejected updates kept in the quarantine";
    quarantine_bytes, "limit-quarantine", bytes, 64 << 20, "64MiB", [Tick],
        "Bytes of rejected updates kept in the quarantine";
    held_responses_bytes, "limit-held-responses", bytes, 4 << 20, "4MiB", [Tick],
        "Bytes of responses that wait until rejected updates are in their file (.u.rejected); a further response does not wait";
    publishers, "limit-publishers", count, 1_000, "1000", [Tick],
        "Maximum number of publisher ids, whose sequence numbers are kept (.u.seq)";
    publisher_id_bytes, "limit-publisher-id", bytes, 64, "64", [Tick],
        "Maximum length of a publisher id";
    symbols, "limit-symbols", count, 50_000_000, "50000000", [Tick, Rdb],
        "Maximum number of distinct symbols in a process";
    symbol_bytes, "limit-symbol-bytes", bytes, 4 << 30, "4GiB", [Tick, Rdb],
        "Bytes of all distinct symbols in a process";
    client_symbols, "limit-client-symbols", count, 1_000_000, "1000000", [Tick, Rdb],
        "Maximum number of new symbols that clients' queries add to a process, 64 bytes each on average; at most a \
         quarter of --limit-symbols";
    query_symbols, "limit-query-symbols", count, 100_000, "100000", [Tick, Rdb],
        "Maximum number of new symbols that one query adds";
    query_time_ns, "limit-query-time", nanoseconds, 300_000_000_000, "5m", [Tick, Rdb],
        "Timeout of a client's query on a node";
    client_wait_ns, "limit-client-wait", nanoseconds, 5_000_000_000, "5s", [Rdb],
        "Time within which a client must respond to a sync message that a query has sent to it";
    client_waits, "limit-client-waits", count, 8, "8", [Rdb],
        "Maximum number of queries that wait for the response of a client; they leave their query threads to others";
    handler_time_ns, "limit-handler-time", nanoseconds, 10_000_000_000, "10s", [Tick, Rdb],
        "Timeout of .z.pw, .z.po, .z.pc and similar handlers";
    day_end_time_ns, "limit-day-end-time", nanoseconds, 600_000_000_000, "10m", [Rdb],
        "Timeout of .u.end in a start-up file; a node that terminates at the end of the day waits this long";
    clock_jump_ns, "limit-clock-jump", nanoseconds, 259_200_000_000_000, "72h", [Tick],
        "Largest jump of the wall clock that may end a day; after a larger one, days end by the monotonic clock. \
         Also the furthest that .u.endofday may run ahead of the clock";
    clock_start_ns, "limit-clock-start", nanoseconds, 2_678_400_000_000_000, "744h", [Tick],
        "Largest distance between the newest log and the wall clock at which a start begins a new day; beyond it, \
         confirm the date with --today";
    query_memory_bytes, "limit-query-memory", bytes, 4 << 30, "4GiB", [Tick, Rdb],
        "Memory limit of a client's query";
    globals_bytes, "limit-globals", bytes, 64 << 20, "64MiB", [Tick],
        "Serialised size of all client-defined globals on the tickerplant";
    user_globals_bytes, "limit-user-globals", bytes, 16 << 20, "16MiB", [Tick, Rdb],
        "Bytes of the globals of one user, where roles give each user globals of its own";
    core_calls, "limit-core-calls", count, 128, "128", [Tick],
        "Calls of .u inside clients' expressions that the tickerplant's main thread performs between two reads of \
         its connections; further ones wait";
    http_connections, "limit-http-connections", count, 64, "64", [Tick, Rdb],
        "Maximum number of HTTP connections";
    http_request_bytes, "limit-http-request", bytes, 16 << 10, "16KiB", [Tick, Rdb],
        "Maximum size of an HTTP request line and headers";
    http_body_bytes, "limit-http-body", bytes, 1 << 20, "1MiB", [Tick, Rdb],
        "Maximum size of an HTTP POST body";
    http_response_bytes, "limit-http-response", bytes, 256 << 20, "256MiB", [Rdb],
        "Maximum size of an HTTP response to q (.Q.hg, `:http://host), or of a message of a WebSocket that q opened";
    web_message_bytes, "limit-web-message", bytes, 1 << 20, "1MiB", [Rdb],
        "Maximum size of a WebSocket message";
    http_time_ns, "limit-http-time", nanoseconds, 10_000_000_000, "10s", [Tick, Rdb],
        "Time within which an HTTP client must send a request, and read the response";
    http_idle_ns, "limit-http-idle", nanoseconds, 120_000_000_000, "2m", [Tick, Rdb],
        "Idle timeout of an HTTP connection between two requests";
    audit_queue, "limit-audit-queue", count, 10_000, "10000", [Tick, Rdb],
        "Records that may wait to be written to the audit log; further ones are dropped and counted, or with \
         --audit-required their calls are rejected";
    audit_text_bytes, "limit-audit-text", bytes, 4 << 10, "4KiB", [Tick, Rdb],
        "Bytes of a query's text in the audit log; a longer one is cut";
    log_read_chunk_bytes, "limit-log-read-chunk", bytes, 1 << 20, "1MiB", [Tick, Rdb, Feed, Log],
        "Size of one read from the log";
    log_buffer_bytes, "limit-log-buffer", bytes, 4 << 20, "4MiB", [Tick],
        "Size of the log's write buffer under durability none";
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
