//! The table of options. Each entry is a flag, an `ELASTICK_*` variable, a TOML key and a line of `--help`.

use super::address::{Address, Listen};
use super::addresses::Addresses;
use super::audit::{self, AuditQueries};
use super::durability::{ChangedBlocks, Damage, Durability, ReplicaMissing};
use super::lease::{LeaseFence, LeaseUrl};
use super::limits::LIMITS;
use super::logging::{self, LogFormat};
use super::mount::RequiredMount;
use super::node_fleet::{self, NodeFleet, Wake};
use super::owner_lease::OwnerUrl;
use super::position::{self, LogPosition};
use super::tls::TlsMode;
use super::units::{self, RollTime};
pub use super::units::{FleetKind, Protocol};
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::filter::Targets;

/// A subcommand; each option lists those it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    Tick,
    Rdb,
    Feed,
    Failover,
    Fleet,
    Gc,
    Lease,
    Log,
    Plan,
    Q,
    Demo,
    Passwd,
    Audit,
    Config,
}

impl Program {
    /// Name on the command line, and of the program's section in a TOML file.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Tick => "tick",
            Program::Rdb => "rdb",
            Program::Feed => "feed",
            Program::Failover => "failover",
            Program::Fleet => "fleet",
            Program::Gc => "gc",
            Program::Lease => "lease",
            Program::Log => "log",
            Program::Plan => "plan",
            Program::Q => "q",
            Program::Demo => "demo",
            Program::Passwd => "passwd",
            Program::Audit => "audit",
            Program::Config => "config",
        }
    }

    /// Programs that read a configuration file.
    pub const ALL: [Program; 7] =
        [Program::Tick, Program::Rdb, Program::Feed, Program::Fleet, Program::Log, Program::Q, Program::Demo];
}

/// Description of an option for command line, environment and file.
#[derive(Debug)]
pub struct OptionSpec {
    /// Long name and TOML key. `roll-threshold` is `ELASTICK_ROLL_THRESHOLD` in the environment.
    pub name: &'static str,
    /// kdb+'s letter for the option, if it has one.
    pub letter: Option<char>,
    /// Former names: other long flags, and keys where only one option has that name.
    pub aliases: &'static [&'static str],
    /// Position among the positional arguments (from 1); 0 for a named option.
    pub position: u8,
    /// Name of the value in `--help`; empty for a switch.
    pub value: &'static str,
    pub default: Option<&'static str>,
    pub help: &'static str,
    /// An option of kdb+ that is rejected or has no effect here.
    pub foreign: bool,
    /// Whether an empty text is valid. It usually is not, because an unset shell variable produces one.
    pub empty: bool,
    /// Other environment variables that set this option, besides `ELASTICK_*`.
    pub variables: &'static [&'static str],
    pub programs: &'static [Program],
    /// Validates a text; the error says what is expected.
    pub check: fn(&str) -> Result<(), String>,
}

impl OptionSpec {
    /// `roll-threshold` -> `ELASTICK_ROLL_THRESHOLD`.
    pub fn variable(&self) -> String {
        format!("ELASTICK_{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// Whether this is the option's name or a former one.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Validates a given value.
    ///
    /// # Errors
    /// The text is empty where it must not be, or no value of this option.
    pub fn checked(&self, text: &str) -> Result<(), String> {
        if text.trim().is_empty() && !self.empty {
            return Err("the value is empty; set one, or unset the option".to_string());
        }
        (self.check)(text)
    }

    pub fn belongs_to(&self, program: Program) -> bool {
        self.programs.contains(&program)
    }
}

/// An option with the type of its value, for `Settings::get`.
#[derive(Debug)]
pub struct Opt<T: 'static> {
    pub spec: OptionSpec,
    pub parse: fn(&str) -> Result<T, String>,
}

/// Returns all options and limits of one program, in the order of the tables.
pub fn of(program: Program) -> impl Iterator<Item = &'static OptionSpec> {
    all().filter(move |spec| spec.belongs_to(program))
}

/// Returns all options and limits of all programs.
pub fn all() -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().chain(LIMITS).copied()
}

/// `ID: type = parser, "name" key value…, "help";` defines a typed static and a row of `OPTIONS`.
macro_rules! options {
    ($($id:ident: $type:ty = $parse:expr, $name:literal $($field:ident $value:expr),*; $help:literal;)*) => {
        $(pub static $id: Opt<$type> = Opt {
            spec: OptionSpec {
                name: $name,
                help: $help,
                check: |text| ($parse)(text).map(drop),
                $($field: $value,)*
                ..BLANK
            },
            parse: $parse,
        };)*
        pub static OPTIONS: &[&OptionSpec] = &[$(&$id.spec),*];
    };
}

pub(super) const BLANK: OptionSpec = OptionSpec {
    name: "",
    aliases: &[],
    letter: None,
    position: 0,
    value: "",
    default: None,
    help: "",
    foreign: false,
    empty: false,
    variables: &[],
    programs: &[],
    check: |_| Ok(()),
};

use Program::{Audit, Demo, Failover, Feed, Fleet, Gc, Lease, Log, Plan, Q, Rdb, Tick};

options! {
    SRC: String = units::name, "src" position 1, value "SRC", default Some("sym"), programs &[Tick];
        "Schema name: tables come from SRC.q, the log is DIR/SRCyyyy.mm.dd";
    DIR: PathBuf = units::path, "dir" position 2, value "DIR", programs &[Tick];
        "Directory of the log; without it nothing is logged (as in kdb+tick)";
    TICKERPLANT: Addresses = units::addresses, "tickerplant" position 1, value "HOST:PORT[:USER:PASSWORD][,...]",
        default Some(":5010"), programs &[Rdb, Feed, Failover, Gc];
        "Address of the tickerplant, in kdb+'s form; tcps://HOST:PORT uses TLS. With several, in a list or behind one name, the active one \
         is used";
    LOGIN_FILE: PathBuf = units::path, "login-file" value "FILE", programs &[Tick, Rdb, Feed, Failover, Gc, Q];
        "File with one line, user:password, for the address: a password on the command line is visible to every user \
         of the machine";
    SERVER: String = units::name, "server" position 1, value "HOST:PORT[:USER:PASSWORD][,...]|FILE", programs &[Q];
        "Remote process or script; without it, expressions are evaluated locally";
    CONFIG: PathBuf = units::path, "config" value "FILE", programs &Program::ALL;
        "TOML file: keys are the long option names, for all programs or under [tick], [rdb], ...";
    LOG_FILTER: Targets = logging::filter, "log-filter" value "LEVEL", default Some("info"), variables &["ELASTICK_LOG"],
        programs &[Tick, Rdb, Feed, Failover, Gc, Fleet, Log, Q, Demo, Plan];
        "Which log lines go to standard error: a level (error, warn, info, debug, trace, off), or warn,elastick::net=debug";
    LOG_FORMAT: LogFormat = logging::format, "log-format" value "FORMAT", default Some("text"),
        programs &[Tick, Rdb, Feed, Failover, Gc, Fleet, Log, Q, Demo, Plan];
        "Format of log lines: text, or json (one object per line)";
    PORT: Listen = units::listen, "port" letter Some('p'), value "PORT", default Some("5010"), programs &[Tick];
        "Port to listen on: [rp,][host:]port, lo/hi for a range, 0 or 0W for any free port";
    NODE_PORT: Listen = units::listen, "port" letter Some('p'), value "PORT", default Some("5011/5110"),
        programs &[Rdb];
        "Port for queries: [rp,][host:]port, lo/hi for the first free one of a range, 0 or 0W for any free port";
    TIMER: Duration = units::millis, "timer" letter Some('t'), value "MS", default Some("0"), programs &[Tick];
        "Batch mode: publish every MS milliseconds; 0 publishes at once";
    HANDLER_TIMER: Duration = units::whole_millis, "handler-timer" letter Some('t'), value "MS", programs &[Rdb];
        "Call .z.ts of the start-up files every MS milliseconds; 0 never calls it (\\t)";
    ACCESS: String = units::name, "access" letter Some('u'), value "1|FILE", programs &[Tick, Rdb];
        "1: remote callers cannot run system commands or leave the directory; FILE: that, and users as with -U";
    USERS: PathBuf = units::path, "users" letter Some('U'), value "FILE", programs &[Tick, Rdb];
        "Users: FILE.toml with roles, OpenID Connect and LDAP, or kdb+'s lines of user:password (plain, md5 or sha1 hex)";
    TLS: TlsMode = units::tls, "tls" letter Some('E'), value "0|1|2", default Some("0"), programs &[Tick, Rdb];
        "Connections to the port: 0 plain, 1 plain and TLS, 2 TLS only (Unix sockets stay plain)";
    TLS_CERT: String = units::text, "tls-cert" value "FILE", empty true,
        variables &["KX_SSL_CERT_FILE", "SSL_CERT_FILE"], programs &[Tick, Rdb, Feed, Failover, Gc, Q];
        "Own certificate for TLS, in PEM, with the intermediate ones after it; read again when it changes, or on SIGHUP";
    TLS_KEY: String = units::text, "tls-key" value "FILE", empty true,
        variables &["KX_SSL_KEY_FILE", "SSL_KEY_FILE"], programs &[Tick, Rdb, Feed, Failover, Gc, Q];
        "Private key of the own certificate, in PEM";
    TLS_CA: String = units::text, "tls-ca" value "FILE", empty true,
        variables &["KX_SSL_CA_CERT_FILE", "SSL_CA_CERT_FILE"], programs &[Tick, Rdb, Feed, Failover, Gc, Q];
        "Trusted certificates, in PEM, for servers and clients; without it those of the system, for servers only";
    TLS_VERIFY_CLIENT: bool = units::yes_or_no, "tls-verify-client" value "YES|NO", default Some("NO"),
        variables &["KX_SSL_VERIFY_CLIENT", "SSL_VERIFY_CLIENT"], programs &[Tick, Rdb, Q];
        "Whether TLS clients must send a trusted certificate (mutual TLS)";
    TLS_VERIFY_SERVER: bool = units::yes_or_no, "tls-verify-server" value "YES|NO", default Some("YES"),
        variables &["KX_SSL_VERIFY_SERVER", "SSL_VERIFY_SERVER"], programs &[Tick, Rdb, Feed, Failover, Gc, Q];
        "Whether the certificate of a server at a tcps:// address is verified: its issuer, host name and dates";
    QUERY_TIME: Duration = units::seconds, "query-time" letter Some('T'), value "SECONDS", default Some("0"),
        programs &[Tick, Rdb];
        "Query timeout in seconds; 0 uses --limit-query-time";
    WORKSPACE: u64 = units::mebibytes, "workspace" letter Some('w'), value "MB", default Some("0"),
        programs &[Tick, Rdb];
        "Memory limit of this process in MB; 0 for all memory of the server or container";
    DATE_ORDER: String = units::date_order, "date-order" letter Some('z'), value "0|1", programs &[Tick, Rdb];
        "How \"D\"$ reads a date: 0 as mm/dd/yyyy, 1 as dd/mm/yyyy (\\z)";
    WEEK_START: String = units::week_start, "week-start" letter Some('W'), value "0..6", programs &[Tick, Rdb];
        "First day of the week, 0 for Saturday (\\W)";
    PRECISION: String = units::precision, "precision" letter Some('P'), value "DIGITS", programs &[Tick, Rdb];
        "Digits of floats when shown as text, 0 for all (\\P)";
    CONSOLE_SIZE: String = units::size, "console-size" letter Some('c'), value "ROWS COLUMNS", programs &[Tick, Rdb];
        "Console size for .Q.s and output of start-up files (\\c)";
    HTTP_SIZE: String = units::size, "http-size" letter Some('C'), value "ROWS COLUMNS", programs &[Rdb];
        "Size of tables in web pages (\\C)";
    HTTP_SIZE_REFUSED: () = units::pages_refused, "http-size" letter Some('C'), value "ROWS COLUMNS", foreign true, programs &[Tick];
        "Not supported (kdb+: size of tables in web pages): a tickerplant serves no tables as pages; a node with \
         .z.ph does";
    QUIET: bool = units::switch, "quiet" letter Some('q'), programs &[Tick, Rdb];
        "Do not print the start-up line";
    COLLECTION: () = units::collection, "collection" letter Some('g'), value "0|1", foreign true, programs &[Tick, Rdb];
        "Accepted, without effect: freed memory always returns to the operating system at once, as with kdb+'s -g 1";
    ERROR_TRAP: () = units::error_trap, "error-trap" letter Some('e'), value "0", foreign true, programs &[Tick, Rdb];
        "Only 0; kdb+'s 1 (suspend the process at a client's error) and 2 (print its stack) are not supported";
    SEED_REFUSED: () = units::seed_refused, "random-seed" letter Some('S'), value "N", foreign true, programs &[Tick, Rdb];
        "Not supported (kdb+: seed of ?): queries run on several threads, each with its own random numbers";
    UTC_OFFSET: () = units::offset_refused, "utc-offset" letter Some('o'), value "N", foreign true, programs &[Tick, Rdb];
        "Not supported (kdb+: UTC offset): set local time with the environment variable TZ, and the time zone of \
         the day with --roll-time";
    LOG_UPDATES: () = units::logging_refused, "log-updates" letter Some('l'), foreign true, programs &[Tick, Rdb];
        "Not supported (kdb+: log messages that change data): `elastick tick SRC DIR` logs every update in DIR";
    LOG_SYNC: () = units::logging_refused, "log-sync" letter Some('L'), foreign true, programs &[Tick, Rdb];
        "Not supported (kdb+: as -l, synced to disk): use --durability each with `elastick tick`";
    REPLICATE: () = units::replicate_refused, "replicate" letter Some('r'), value ":HOST:PORT", foreign true, programs &[Tick, Rdb];
        "Not supported (kdb+: replicate a process that logs with -l): nodes subscribe to a tickerplant instead";
    MEMORY_DOMAIN: () = units::memory_refused, "memory-domain" letter Some('m'), value "DIR", foreign true, programs &[Tick, Rdb];
        "Not supported (kdb+: second memory domain on a file system): --memory limits a node";
    SECONDARY: () = units::threads_refused, "secondary-threads" letter Some('s'), value "COUNT", foreign true, programs &[Tick];
        "Not supported (kdb+: threads for peach): a tickerplant's queries use one thread each; a node has -s";
    METRICS_OPEN: bool = units::switch, "metrics-open" programs &[Tick, Rdb];
        "GET /metrics and /health on the port need no password where other callers do";
    ALLOW_ORIGIN: Vec<String> = units::names, "allow-origin" value "URL,...", default Some(""), programs &[Tick, Rdb, Q];
        "Web pages that may send requests and open WebSockets beside the process's own, by origin: \
         https://desk.example.com, null for files, * for all";
    ALLOW_HOST: Vec<String> = units::names, "allow-host" value "NAME,...", default Some(""), programs &[Tick, Rdb, Q];
        "Host names by which browsers may reach a process without users, beside localhost, IP addresses and the machine's name";
    BLOCK_WRITES: bool = units::switch, "block-writes" letter Some('b'), programs &[Tick, Rdb];
        "Clients may read but not assign (noupdate)";
    LOAD: Vec<String> = units::names, "load" value "F1.q,F2.q", default Some(""), programs &[Rdb, Tick];
        "q files evaluated before clients are served, and before those on the command line: functions, variables, \
         handlers";
    ALLOW: PathBuf = units::path, "allow" value "FILE", programs &[Rdb, Tick];
        "File of function names, one per line: clients may only call these, by name and with values as arguments";
    REMOTE_MAY: Vec<String> = units::grants, "remote-may" value "files,sockets,system", default Some(""), programs &[Rdb];
        "What clients' queries may access: files (with -u, below the working directory), sockets (hopen, other \
         handles), system (commands, environment; never with -u)";
    OPERATORS: Vec<String> = units::names, "operators" value "USER,...", default Some(""), programs &[Tick];
        "Users with the role operator: .u.endofday, .u.end, .u.schema. A users file in TOML can say it as well. Without \
         users everyone on this machine is an operator, or if this option is given those whom it names";
    CLUSTER_SECRET: PathBuf = units::path, "cluster-secret-file" value "FILE", programs &[Tick, Rdb];
        "Secret that tickerplant and nodes prove to each other to know, without sending it: any 16 bytes or more, like those of \
         `openssl rand -base64 32`. A node without it cannot join";
    AUDIT: PathBuf = units::path, "audit" value "FILE", programs &[Tick, Rdb];
        "Append a JSON line to FILE for each login, query, subscription and operator's call, and sums of what is published; \
         opened again when it was moved, as by logrotate. {process} in FILE becomes the process's name, so that all nodes of a fleet have a \
         file of their own: audit-{process}.jsonl";
    AUDIT_QUERIES: AuditQueries = audit::queries, "audit-queries" value "text|hash|none", default Some("text"),
        programs &[Tick, Rdb];
        "How the audit log shows queries: their text up to --limit-audit-text, their SHA-256, or not at all";
    AUDIT_MAX_SIZE: u64 = units::bytes, "audit-max-size" value "SIZE", default Some("1GiB"), programs &[Tick, Rdb];
        "Size at which the audit log is renamed to FILE.TIME and a new one begins; 0 for never";
    AUDIT_KEEP: u64 = units::count, "audit-keep" value "COUNT", default Some("0"), programs &[Tick, Rdb];
        "Renamed audit logs to keep, the newest ones, and with {process} in the name as many files of ended processes of the same program; 0 for all";
    AUDIT_REQUIRED: bool = units::switch, "audit-required" programs &[Tick, Rdb];
        "Reject logins and calls that the audit log cannot record, as when its disk is full. Updates of connected publishers \
         are accepted: their sums wait in memory";
    OPEN: bool = units::switch, "open" programs &[Tick, Rdb];
        "Listen on all interfaces although there is no users file (-u, -U): everyone who reaches the port has every role";
    UNIX_SOCKETS: String = units::text, "unix-sockets" value "DIR", default Some("/tmp"), empty true,
        variables &["QUDSPATH"], programs &[Tick, Rdb];
        "Directory of the Unix domain socket kx.PORT, bound by path and as an abstract name; empty for none";
    SCHEMAS: PathBuf = units::path, "schemas" value "DIR|FILE", default Some("schemas"), programs &[Tick];
        "Directory that holds SRC.q, or the schema file itself; without SRC.q in it, SRC.q, schemas/SRC.q and tick/SRC.q";
    COERCE: bool = units::switch, "coerce" programs &[Tick];
        "Convert published values of another type where nothing is lost, such as int to long or a list of strings to symbols; without it \
         such an update is rejected";
    DURABILITY: Durability = units::durability, "durability" value "none|os|group(TIME)|each|replica(COUNT)", default Some("os"),
        programs &[Tick];
        "When an update counts as logged: none = buffered, os = written to the page cache, group(5ms) = synced to \
         disk together with others within 5 ms, each = synced before it is published, replica(1) = as group(5ms), and synced by 1 \
         follower (--follow) as well";
    REPLICA_TIMEOUT: Duration = units::duration, "replica-timeout" value "TIME", default Some("5s"), programs &[Tick];
        "With --durability replica: time for followers to confirm an update, after which --replica-missing applies";
    REPLICA_MISSING: ReplicaMissing = units::replica_missing, "replica-missing" value "continue|refuse", default Some("continue"),
        programs &[Tick];
        "With --durability replica, while too few followers confirm in time: continue = acknowledge what is synced here, as group(5ms) does, \
         with a warning; refuse = reject updates until they confirm again";
    FOLLOW: Addresses = units::addresses, "follow" value "HOST:PORT[:USER:PASSWORD][,...]", programs &[Tick];
        "Copy the log of the tickerplant at this address into DIR, update by update, and be passive. Several addresses are tried in turn; the \
         own one is left out. With --lease in a store it takes over by itself if its copy has every acknowledged update; without, once it is \
         started again on the same DIR without this option";
    REQUIRE_MOUNT: RequiredMount = units::required_mount, "require-mount" value "none|KIND|DIR", default Some("none"),
        programs &[Tick];
        "Log only if DIR is on a file system of this type (nfs for EFS), or on the one mounted at this path. \
         Protects against logging to an empty directory because a volume is not mounted";
    DAMAGE: Damage = units::damage, "damage" value "stop|keep-before|skip", default Some("stop"), programs &[Tick];
        "If the log is damaged in the middle: stop = do not start, keep-before = drop the damage and everything \
         after it, skip = drop the damage only";
    LEASE: LeaseUrl = units::lease, "lease" value "URL", programs &[Tick];
        "What decides which of several tickerplants with one log, or with copies of it (--follow), is active; the others are passive, answer .u.state[] and say who is active. \
         file: = the log's own lock. dynamodb://TABLE/KEY[?region=R&endpoint=URL&duration=6s&heartbeat=1s] = a lease in that table, \
         which an active one that hangs or is cut off loses too; the log's lock is taken after it. admiral:FILE.yaml = the same by \
         the rules and the file of Admiral's pods. swift://HOST[:PORT]/CONTAINER/KEY?account=A or ?user=U&key-file=F = an object of Swift, \
         which only says who is alive: needs --lease-fence file:";
    LEASE_FENCE: LeaseFence = units::lease_fence, "lease-fence" value "file:", programs &[Tick];
        "For --lease swift://, whose writes are not atomic: several tickerplants may believe that they have the lease, and the lock and the epoch of the \
         log decide which one writes. All have the same DIR. Other leases need no option, the log always fences them";
    OWNER_LEASE: OwnerUrl = units::owner_lease, "owner-lease" value "URL", programs &[Rdb, Gc];
        "Where each node keeps a lease that says that its process is there, so that elastick gc finds the windows of nodes whose hosts hang or \
         are cut off. swift://HOST[:PORT]/CONTAINER?account=A or ?user=U&key-file=F, dynamodb://TABLE/PREFIX, or file:DIR for one host; each with \
         expire=15s&renew=3s&validity=3s. No node stops without its lease";
    LEASE_FAILSAFE: bool = units::switch, "lease-failsafe" programs &[Tick];
        "Stay active while the store of the lease does not answer, by the lock of the log alone; without it the tickerplant steps down before \
         the lease ends";
    ADVERTISE: Address = units::address, "advertise" value "HOST:PORT", programs &[Tick];
        "Where other hosts reach this tickerplant, told to clients of a passive one; by default the host of -p or the machine's name, and the port";
    FORWARD: bool = units::switch, "forward" programs &[Tick];
        "While passive, hand every connection through to the active tickerplant, which decides on users; without it, clients are refused \
         with its address. HTTP without TLS is still answered here";
    NODE_GRACE: Duration = units::duration, "node-grace" value "TIME", default Some("2s"), programs &[Tick];
        "Time for a disconnected node to reconnect and keep its windows, before other nodes rebuild them";
    START_GRACE: Duration = units::duration, "start-grace" value "TIME", default Some("30s"), programs &[Tick];
        "The same after the tickerplant has started, when all nodes must reconnect. If the nodes were restarted with it, the queue \
         has no live node until then";
    PROOF_TIMEOUT: Duration = units::duration, "proof-timeout" value "TIME", default Some("1m"), programs &[Tick];
        "Time for a node to prove that a closed window which it claims agrees with the log. After that another node \
         rebuilds the window";
    TODAY: jiff::civil::Date = units::date, "today" value "DATE", programs &[Tick];
        "Confirm that the clock is right if it shows this date, although the newest log is older than \
         --limit-clock-start. No effect on any other date";
    ROLL: RollTime = units::roll_time, "roll-time" aliases &["roll"], value "HH:MM [ZONE]", default Some("00:00"),
        variables &["ELASTICK_ROLL"], programs &[Tick];
        "When the day ends and the next one begins, e.g. \"17:00 America/New_York\"; without a zone, the system's";
    CALENDAR: PathBuf = units::path, "calendar" value "FILE", programs &[Tick];
        "Trading days in TOML: zone, weekdays, open, close, end, prepare, holidays and [half-days]. Each trading day has a log, which ends at `end`, \
         on a half day as long after the close as on others; what comes at night, at the weekend or on a holiday belongs to the next one. Instead of \
         --roll-time. .u.calendar[date] shows it";
    QUEUE: String = units::name, "queue" value "NAME", programs &[Rdb];
        "Queue that this node joins; by default the name of the fleet's group, or rdb without a fleet";
    PROTOCOL: Protocol = units::protocol, "protocol" value "auto|elastick|paper|stock", default Some("auto"),
        programs &[Rdb];
        "Protocol of the tickerplant: elastick's own, the paper's .u.asg in q, or stock kdb+tick";
    MEMORY: u64 = units::memory, "memory" value "SIZE", default Some("0"), programs &[Rdb];
        "Memory limit of this node, like 512MiB; 0 uses -w, or without it all memory of the server or container";
    QUERY_THREADS: u64 = units::count, "query-threads" value "COUNT", default Some("0"), programs &[Rdb];
        "Query threads; 0 for one per core";
    HELPER_THREADS: u64 = units::count, "helper-threads" letter Some('s'), value "COUNT", programs &[Rdb, Q];
        "Threads for peach and for operations on many rows within a query (\\s); by default one per core on a \
         node, none at the console";
    NODE: String = units::name, "node" value "NAME", programs &[Rdb];
        "Unique name of this node, the same after a restart; by default host and process id";
    TABLES: Vec<String> = units::names, "tables" value "T1,T2", default Some(""), programs &[Rdb, Log, Feed];
        "Only these tables; all if empty";
    SYMBOLS: Vec<String> = units::names, "symbols" value "S1,S2", default Some(""), programs &[Rdb];
        "Symbols to subscribe to, all if empty";
    SCALE: units::Scale = units::scale, "scale" value "PERCENT|auto", default Some("auto"), variables &["SCALETHRESHOLD"],
        programs &[Rdb];
        "Memory use at which a successor is requested; auto decides by fill rate and lead time";
    ROLL_THRESHOLD: f64 = units::percent, "roll-threshold" aliases &["roll"], value "PERCENT", default Some("85%"),
        variables &["ROLLTHRESHOLD"], programs &[Rdb];
        "Memory use at which this node rolls: it stops receiving and its successor becomes live";
    LEAVE_WITHIN: Duration = units::duration, "leave-within" value "TIME", programs &[Rdb];
        "Time for a node to drain after SIGTERM or a termination notice of its fleet: other nodes take over its \
         windows. 0, or Ctrl-C, ends it at once. By default 90s in a fleet, 0 without one";
    FLEET: FleetKind = units::fleet, "fleet" value "auto|local|aws|none", default Some("auto"), programs &[Rdb, Tick];
        "Fleet that this process is an instance of: local = the `elastick fleet` that started it, aws = the Auto Scaling group \
         of this instance, auto = local if one started it, else none";
    FLEET_SHOWN: FleetKind = units::fleet, "fleet" value "auto|local|aws|none|HOST:PORT", default Some("auto"),
        programs &[Fleet];
        "Fleet to show: HOST:PORT = the `elastick fleet` listening there, local = the one that started this \
         process, aws = the Auto Scaling group of this instance, auto = local, or if none started it the one at --port";
    NODE_FLEET: NodeFleet = node_fleet::node_fleet, "node-fleet" value "HOST:PORT/GROUP|aws:GROUP", programs &[Tick];
        "Where the tickerplant requests the first nodes of its queues, while no node is there to do so: the group of an `elastick fleet`, or \
         an Auto Scaling group of this instance's region; several groups with commas. For --wake and --idle-off";
    WAKE: Wake = node_fleet::wake, "wake" value "schedule|first-update|first-query|calendar", default Some("schedule"), programs &[Tick];
        "When a day's first node starts: schedule = the live node stays over the end of the day, and any others are started by hand or by a \
         schedule. With the others all nodes end with the day, and --node-fleet is asked for the next one by the day's first update, by the \
         first .u.asg.wake[], or by --calendar, `prepare` before the market opens. Updates before are in the log, and the node replays them";
    NODE_LEAD: Duration = units::duration, "lead-time" value "TIME", default Some("60s"), programs &[Tick];
        "With --node-fleet: time from the request for a node until it is in its queue, as .u.asg.wake[] announces it until one was measured";
    IDLE_OFF: Duration = units::duration, "idle-off" value "TIME", default Some("0"), programs &[Tick];
        "End all nodes after so long without an update and without a query on any of them; the next update, or .u.asg.wake[], starts as many \
         again as held the day. The log keeps the data. 0 for never. Needs --node-fleet";
    CLOUDWATCH: Duration = units::duration, "cloudwatch" value "TIME", programs &[Rdb, Tick];
        "Interval at which metrics are published to CloudWatch, 0 for never; by default 60s with --fleet aws";
    LAUNCH_TIMEOUT: Duration = units::duration, "launch-timeout" value "TIME", default Some("10m"), programs &[Rdb];
        "Time within which a launched instance must join the queue, or it is replaced";
    KEEP_DAYS: u32 = units::days, "keep-days" value "DAYS", programs &[Tick, Log];
        "Days for which a log is kept, with the files beside it; by default all are. Later it is deleted when a day begins, unless it is one \
         of the newest DAYS before the current one, or is not known to be whole";
    FROM: LogPosition = position::log_position, "from" value "INDEX|HH:MM", default Some("0"), programs &[Log];
        "First update, by its index, or by a time: 02:00, 09:30:00.5 or 2026.11.21D02:00, as in the first column";
    TO: LogPosition = position::log_position, "to" value "INDEX|HH:MM", programs &[Log];
        "Update to stop before, by its index or a time; by default the end of the log";
    DRY_RUN: bool = units::switch, "dry-run" programs &[Log, Failover, Gc];
        "Print what would be done, and do nothing";
    SUCCESSOR: Address = units::address, "to" value "HOST:PORT", programs &[Failover];
        "The tickerplant that takes over, one of the list; by default the passive one that lacks nothing and is named first";
    FORCE: bool = units::switch, "force" programs &[Log];
        "Delete also days that are not known to be whole; never the newest one";
    OUT: PathBuf = units::path, "out" value "FILE", programs &[Log];
        "File to create; - for standard output";
    ALLOW_TORN: bool = units::switch, "allow-torn" programs &[Log];
        "Accept a log that ends in an unfinished record: it is left out with a warning, and the exit code is 0";
    IN_PLACE: bool = units::switch, "in-place" programs &[Log];
        "Replace the damaged log with the repaired one; the damaged one is kept beside it";
    CHANGED_BLOCKS: ChangedBlocks = units::changed_blocks, "changed-blocks" value "keep|cut", default Some("keep"), programs &[Log];
        "Readable blocks whose checksums differ: keep them, marked as damaged, or cut them out";
    ITEMS: u64 = units::count, "items" value "COUNT", default Some("4"), programs &[Log];
        "Number of items shown of each column";
    AUDIT_USER: String = units::text, "user" value "USER", programs &[Audit];
        "Records of this user";
    AUDIT_CALL: String = units::name, "call" value "CALL", programs &[Audit];
        "Records of this call, like query, login or .u.sub";
    AUDIT_OUTCOME: String = units::name, "outcome" value "ok|failed|TEXT", programs &[Audit];
        "Calls that succeeded, that failed, or whose error has this text";
    AUDIT_SINCE: String = audit::time, "since" value "DATETIME", programs &[Audit];
        "Records from this time on, in UTC: 2026-11-24, or 2026-11-24T09:30:00";
    AUDIT_UNTIL: String = audit::time, "until" value "DATETIME", programs &[Audit];
        "Records before this time, in UTC";
    JSON: bool = units::switch, "json" programs &[Log, Feed, Failover, Gc, Lease, Demo, Audit, Plan];
        "Print JSON instead of text tables";
    FEED_RATE: f64 = units::positive, "rate" value "N", default Some("1000"), programs &[Feed];
        "Updates per second; the average of a simulated day";
    FEED_MINUTES: f64 = units::positive, "minutes" value "N", programs &[Feed];
        "Publish a whole simulated day in N minutes, following the day's curve; without it, at a constant rate";
    FEED_UPDATES: u64 = units::count, "updates" value "N", programs &[Feed];
        "Stop after N updates";
    ROWS: u64 = units::count, "rows" value "N", default Some("10"), programs &[Feed, Demo];
        "Average number of rows per update";
    UNIVERSE: u64 = units::count, "universe" value "N", default Some("500"), programs &[Feed, Demo];
        "Symbols of the simulated market";
    SKEW: f64 = units::number, "skew" value "N", default Some("1"), programs &[Feed, Demo];
        "Exponent of Zipf's law; 0 makes all symbols equally active";
    QUOTES: u64 = units::count, "quotes" value "N", default Some("4"), programs &[Feed, Demo];
        "Quote updates per trade update";
    SEED: u64 = units::count, "seed" value "N", default Some("1"), programs &[Feed, Demo];
        "Random seed; the same seed publishes the same updates";
    SYNC: bool = units::switch, "sync" programs &[Feed];
        "Publish each update as a sync message and wait for the reply";
    CONFIRM: u64 = units::count, "confirm" value "N", default Some("1000"), programs &[Feed];
        "Updates between two sync calls that confirm how many were accepted";
    REPLAY: PathBuf = units::path, "replay" value "FILE", programs &[Feed];
        "Publish the updates of this tickerplant log (kdb+ or elastick) instead of a simulated market";
    SPEED: f64 = units::number, "speed" value "N", default Some("1"), programs &[Feed];
        "Replay at N times the logged speed; 0 for as fast as the tickerplant accepts";
    GROUP: String = units::name, "group" value "NAME", default Some("rdb"), programs &[Fleet];
        "Name of the group; its instances are NAME-1, NAME-2, ...";
    FLEET_PORT: Listen = units::listen, "port" letter Some('p'), value "PORT", default Some("127.0.0.1:5009"),
        programs &[Fleet];
        "Port of the fleet's interface: [host:]port; 0 for any free port. `fleet status` looks there too";
    MIN_NODES: u64 = units::count, "min" value "N", default Some("1"), programs &[Fleet];
        "Minimum number of instances";
    MAX_NODES: u64 = units::count, "max" value "N", default Some("10"), programs &[Fleet];
        "Maximum number of instances";
    LAUNCH_DELAY: Duration = units::duration, "launch-delay" value "TIME", default Some("0"), programs &[Fleet];
        "Delay from the request for an instance to its start, to imitate the lead time of a server";
    GRACE: Duration = units::duration, "grace" value "TIME", default Some("10s"), programs &[Fleet];
        "Time for an instance to exit after SIGTERM, before it is killed";
    NOTICE: Duration = units::duration, "notice" value "TIME", default Some("30s"), programs &[Fleet];
        "Time between the termination notice and SIGTERM when an instance is replaced or the group shrinks; \
         shorter if the instance releases itself";
    OUTPUT: PathBuf = units::path, "output" value "DIR", programs &[Fleet];
        "Directory for the output of each instance, in DIR/NAME-1.log; by default that of the supervisor is inherited";
    DEMO_MINUTES: f64 = units::positive, "minutes" value "N", default Some("2.5"), programs &[Demo];
        "Length of the simulated day";
    DEMO_RATE: f64 = units::positive, "rate" value "N", default Some("2700"), programs &[Demo];
        "Updates per second, the average of the day";
    KILL_TICK: bool = units::switch, "kill-tick" programs &[Demo];
        "Run two tickerplants, and kill the active one (kill -9) while the group grows";
    DEMO_SLEEP: bool = units::switch, "sleep" programs &[Demo];
        "The first update starts the first node; when the feed has ended the nodes end too, and a call wakes as many as the log needs";
    DEMO_PORT: Listen = units::listen, "port" letter Some('p'), value "PORT", default Some("5010/5029"), programs &[Demo];
        "Port of the tickerplant: port, lo/hi for the first free one of a range, 0 for any free port";
    DEMO_DIR: PathBuf = units::path, "dir" value "DIR", programs &[Demo];
        "Directory for the log and the output of the processes, kept at the end; by default a temporary one, removed";
    NODE_MEMORY: u64 = units::memory, "node-memory" value "SIZE", default Some("32MiB"), programs &[Demo];
        "Memory limit of each node";
    DEMO_SCALE: units::Scale = units::scale, "scale" value "PERCENT|auto", default Some("60%"),
        variables &["SCALETHRESHOLD"], programs &[Demo];
        "Memory use at which a successor is requested; auto decides by fill rate and lead time";
    DEMO_ROLL: f64 = units::percent, "roll-threshold" aliases &["roll"], value "PERCENT", default Some("80%"),
        variables &["ROLLTHRESHOLD"], programs &[Demo];
        "Memory use at which a node rolls: it stops receiving and its successor becomes live";
    DEMO_MAX_NODES: u64 = units::count, "max-nodes" value "N", default Some("16"), programs &[Demo];
        "Maximum number of nodes";
    LEAD_TIME: Duration = units::duration, "lead-time" value "TIME", default Some("300ms"), programs &[Demo];
        "Time that the fleet takes to launch a node, not counting the start of its process";
    DEMO_DURABILITY: Durability = units::durability, "durability" value "none|os|group(TIME)|each",
        default Some("group(20ms)"), programs &[Demo];
        "When the tickerplant counts an update as logged; see elastick tick --help";
    SVG: PathBuf = units::path, "svg" value "FILE", programs &[Demo];
        "Write an SVG of the day: capacity and use, nodes and their windows";
}
