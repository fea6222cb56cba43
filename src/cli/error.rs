//! What a subcommand can end with.

use crate::config::ConfigError;
use std::io;
use std::process::ExitCode;
use thiserror::Error;

/// Exit code for a command line or configuration that is wrong.
pub const USAGE: u8 = 2;

#[derive(Debug, Error)]
pub enum CliError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The work failed, in words for the operator.
    #[error("{0}")]
    Failed(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// An operating error of any module, by its own words.
    pub fn failed(error: impl std::fmt::Display) -> CliError {
        CliError::Failed(error.to_string())
    }

    /// Whether the reader of our output went away, which is no error of ours.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit_code(&self) -> ExitCode {
        match self {
            CliError::Config(_) | CliError::Usage(_) => ExitCode::from(USAGE),
            _ if self.is_closed_pipe() => ExitCode::SUCCESS,
            CliError::Failed(_) | CliError::Output(_) => ExitCode::FAILURE,
        }
    }
}
