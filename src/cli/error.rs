//! Errors of a subcommand.

use crate::config::ConfigError;
use std::io;
use std::process::ExitCode;
use thiserror::Error;

/// Exit code for an invalid command line or configuration.
pub const USAGE: u8 = 2;

/// Why a subcommand failed.
#[derive(Debug, Error)]
pub enum CliError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The combination of arguments is invalid.
    #[error("{0}")]
    Usage(String),
    /// The work failed; the text is for the operator.
    #[error("{0}")]
    Failed(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// Wraps an operating error of any module.
    pub fn failed(error: impl std::fmt::Display) -> CliError {
        CliError::Failed(error.to_string())
    }

    /// Whether the reader of standard output closed it, which is not an error.
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
