//! Configuration: one table of options and one of limits define the command line, `ELASTICK_*` variables, TOML keys and `--help`.
//!
//! Resolution has two stages: the text (flag, then environment, then file, then default), then the typed value with its unit. Every value
//! keeps its source, so that an error names the flag, variable or key to change.

pub mod address;
pub mod durability;
pub mod limits;
pub mod logging;
pub mod mount;
pub mod options;
pub mod settings;
pub mod tls;
pub mod units;

pub use address::{Address, Listen};
pub use durability::{ChangedBlocks, Damage, Durability};
pub use limits::{Limit, Limits};
pub use mount::RequiredMount;
pub use options::{Opt, OptionSpec, Program};
pub use settings::{ConfigError, Settings};
pub use tls::TlsMode;
