//! The option that somebody probably meant who wrote an unknown one.

use crate::config::closest::closest;
use crate::config::{Program, options};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::ffi::OsString;

/// Names in an error about an unknown option the closest one of that subcommand, or the program that has it.
pub fn improve(error: &mut Error, command: &Command, words: &[OsString]) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    let Some(name) = given.strip_prefix("--").map(|name| name.split('=').next().unwrap_or(name).to_string()) else {
        return;
    };
    // Gives each subcommand its whole name.
    let mut whole = command.clone();
    whole.build();
    let command = words
        .iter()
        .skip(1)
        .take_while(|word| *word != "--")
        .fold(&whole, |command, word| command.find_subcommand(word).unwrap_or(command));
    error.remove(ContextKind::SuggestedArg);
    // The usage that was made for the option that clap would suggest.
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    let tip = |error: &mut Error, text: String| {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(text)]));
    };
    let others = programs_with(&name);
    if !others.is_empty() {
        return tip(error, format!("--{name} is an option of elastick {others}"));
    }
    let is_foreign = |name: &str| options::all().any(|spec| spec.foreign && spec.name == name);
    let own = command.get_arguments().filter_map(clap::Arg::get_long).filter(|name| !is_foreign(name));
    if let Some(meant) = closest(&name, own) {
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{meant}")));
        return;
    }
    let of_others = options::all().filter(|spec| spec.position == 0 && !spec.foreign).map(|spec| spec.name);
    if let Some(meant) = closest(&name, of_others) {
        tip(error, format!("a similar one, --{meant}, is an option of elastick {}", programs_with(meant)));
    }
}

/// Names of the programs that have an option.
fn programs_with(name: &str) -> String {
    let has_it = |program: &Program| options::of(*program).any(|spec| spec.position == 0 && spec.is_named(name));
    Program::ALL.into_iter().filter(has_it).map(Program::name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::cli::command;

    /// The text of the error for a command line.
    fn error(words: &[&str]) -> String {
        let words: Vec<_> = words.iter().map(std::ffi::OsString::from).collect();
        let command = command();
        let mut error = command.clone().try_get_matches_from(&words).expect_err("an unknown option");
        super::improve(&mut error, &command, &words);
        error.to_string()
    }

    #[test]
    fn the_closest_option_of_the_subcommand_is_named() {
        for (words, meant) in [
            (&["elastick", "rdb", "--prot", "5011"][..], "'--port'"),
            (&["elastick", "tick", "--durabilty=os"], "'--durability'"),
            (&["elastick", "log", "cat", "--form", "3", "x"], "'--from'"),
            (&["elastick", "fleet", "status", "--gruop", "x"], "'--group'"),
        ] {
            let text = error(words);
            assert!(text.contains(meant), "{text}");
        }
    }

    #[test]
    fn an_option_of_another_program_is_said_to_be_one() {
        for name in ["--query-threads", "--memory"] {
            let text = error(&["elastick", "tick", name, "2"]);
            assert!(text.contains(&format!("{name} is an option of elastick rdb")), "{text}");
        }
        assert!(!error(&["elastick", "tick", "--fnord"]).contains("similar"));
    }

    #[test]
    fn a_misspelt_option_of_another_program_is_said_to_be_one() {
        let text = error(&["elastick", "tick", "--memry", "4GB"]);
        assert!(text.contains("a similar one, --memory, is an option of elastick rdb"), "{text}");
        assert!(text.contains("Usage: elastick tick [OPTIONS]"), "{text}");
    }
}
