//! Configuration: one table of options and one of limits define the command line, `ELASTICK_*` variables, TOML keys and `--help`.
//!
//! Resolution has two stages: the text (flag, then environment, then file, then default), then the typed value with its unit. Every value
//! keeps its source, so that an error names the flag, variable or key to change.

pub mod address;
pub mod addresses;
#[cfg(feature = "aws")]
mod admiral;
pub mod audit;
mod calendar;
pub mod closest;
pub mod durability;
pub mod file;
pub mod lease;
pub mod limits;
pub mod logging;
pub mod login;
pub mod mount;
mod node_fleet;
pub mod options;
mod owner_lease;
pub mod position;
pub mod sample;
pub mod settings;
mod swift;
pub mod tls;
pub mod units;
pub mod watch;

pub use address::{Address, Listen};
pub use addresses::Addresses;
#[cfg(feature = "aws")]
pub use admiral::{Admiral, SKIP_LEASE_POD};
pub use audit::AuditQueries;
pub use calendar::{Session, TradingCalendar, before};
pub use durability::{ChangedBlocks, Damage, Durability, ReplicaMissing};
pub use lease::{LeaseFence, LeaseTable, LeaseUrl, decoded};
pub use limits::{Limit, Limits, Unit};
pub use mount::RequiredMount;
pub use node_fleet::{NodeFleet, NodeFleetPlace, Wake, wake};
pub use options::{Opt, OptionSpec, Program};
pub use owner_lease::{OwnerPlace, OwnerUrl};
pub use position::LogPosition;
pub use settings::{ConfigError, Settings};
pub use swift::{SwiftAuth, SwiftLease, SwiftPlace};
pub use tls::TlsMode;
