//! `log prune`: deletes the logs of past days.

use super::directory::today;
use super::{Job, counted};
use crate::cli::error::CliError;
use crate::config::options;
use crate::env::SystemDisk;
use crate::log::days::days;
use crate::log::retention::{Fate, delete, fates};
use std::io::Write;

/// Deletes, or with `--dry-run` lists, the days of each directory that are due; a due day that is kept is an error.
pub fn prune(job: &Job) -> Result<(), CliError> {
    let Some(keep) = job.settings.find(&options::KEEP_DAYS)? else {
        return Err(CliError::Usage(
            "for how many days are logs kept? `elastick log prune` needs --keep-days DAYS".to_string(),
        ));
    };
    let (is_dry, force) = (job.settings.is_on(&options::DRY_RUN)?, job.settings.is_on(&options::FORCE)?);
    let what = if is_dry { "would delete" } else { "deleted" };
    let mut out = std::io::stdout().lock();
    let (mut deleted, mut bytes, mut held) = (0_usize, 0_u64, 0_usize);
    for dir in &job.files {
        if !dir.is_dir() {
            return Err(CliError::Usage(format!("{} is no directory: give a directory of logs", dir.display())));
        }
        let found = days(&SystemDisk, dir, None).map_err(CliError::failed)?;
        for (day, fate) in found.iter().zip(fates(&found, today(), keep, force)) {
            let path = day.log.display();
            match fate {
                Fate::Until(until) if is_dry => {
                    writeln!(out, "{path}: kept until {}, by --keep-days {keep}", until.strftime("%Y.%m.%d"))?;
                }
                Fate::Newest if is_dry => {
                    writeln!(out, "{path}: kept: old, but fewer than {} days are newer", u64::from(keep) + 1)?;
                }
                Fate::Until(_) | Fate::Newest => {}
                Fate::Held(state) => {
                    held = held.saturating_add(1);
                    writeln!(out, "{path}: kept, not known to be whole: {state}")?;
                }
                Fate::Delete => {
                    if !is_dry {
                        delete(&SystemDisk, day).map_err(CliError::failed)?;
                    }
                    deleted = deleted.saturating_add(1);
                    bytes = bytes.saturating_add(day.bytes());
                    writeln!(out, "{path}: {what} {}, {} bytes", counted(day.files.len(), "file"), day.bytes())?;
                }
            }
        }
    }
    writeln!(out, "{what} {}, {bytes} bytes", counted(deleted, "day"))?;
    match held {
        0 => Ok(()),
        _ => Err(CliError::Failed(format!(
            "{} past --keep-days {keep}, not known to be whole: `elastick log verify` reads a log, `elastick log index` gives it \
             a side file, --force deletes it all the same",
            counted(held, "day")
        ))),
    }
}
