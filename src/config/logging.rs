//! Values of the logging options: which events are logged, and in which format.

use tracing_subscriber::filter::{LevelFilter, Targets};

/// Prefix of this program's log targets.
const OWN_TARGET: &str = "elastick";

/// Format of log lines on standard error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Time, level, target, message, then `field=value`.
    Text,
    /// One JSON object per line.
    Json,
}

/// Parses the name of a format.
///
/// # Errors
/// The text is not a format.
pub fn format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is not a log format; use text or json")),
    }
}

/// Parses levels by target: `info`, or `warn,elastick::net=debug`.
///
/// # Errors
/// A part is not a level, `target=level`, or a target of this program (which enables all of its events).
pub fn filter(text: &str) -> Result<Targets, String> {
    // The parser takes a misspelt level for a target, and an empty part for the level `error`.
    let is_known = |part: &str| {
        part.contains('=') || part.starts_with(OWN_TARGET) || (!part.is_empty() && part.parse::<LevelFilter>().is_ok())
    };
    text.parse().ok().filter(|_| text.split(',').map(str::trim).all(is_known)).ok_or_else(|| {
        format!(
            "{text:?} is not a log filter; use a level (error, warn, info, debug, trace, off), or \
             warn,elastick::net=debug"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_and_levels_by_target() {
        assert_eq!(filter("info"), Ok(Targets::new().with_default(LevelFilter::INFO)));
        let by_target = Targets::new().with_default(LevelFilter::WARN).with_target("elastick::net", LevelFilter::DEBUG);
        assert_eq!(filter("warn,elastick::net=debug"), Ok(by_target));
        assert!(filter("warn,elastick::net").is_ok());
    }

    #[test]
    fn an_invalid_level_is_an_error_with_an_example() {
        for wrong in ["loud", "warn,loud", "elastick::net=loud", ""] {
            assert!(filter(wrong).unwrap_err().contains("warn,elastick::net=debug"), "{wrong:?}");
        }
        assert!(format("xml").unwrap_err().contains("text or json"));
    }
}
