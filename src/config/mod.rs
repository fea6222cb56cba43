//! Configuration: one table of options and one of limits, from which the command line, `ELASTICK_*` variables, TOML
//! keys and `--help` are made.
//!
//! Two stages: what was typed (flags, then environment, then file, then the default), and then values with their units
//! applied. Every value remembers where it came from, so that an error names the flag, variable or key to change.

pub mod address;
pub mod durability;
pub mod limits;
pub mod mount;
pub mod options;
pub mod settings;
pub mod units;

pub use address::{Address, Listen};
pub use durability::{ChangedBlocks, Damage, Durability};
pub use limits::{Limit, Limits};
pub use mount::RequiredMount;
pub use options::{Opt, OptionSpec, Program};
pub use settings::{ConfigError, Settings};
