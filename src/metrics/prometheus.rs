//! Prometheus' text format 0.0.4.

use super::snapshot::Snapshot;
use super::table::Id;
use std::fmt::Write;

/// Content type of the HTTP response.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Formats a snapshot. A metric without a value is left out.
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = String::with_capacity(16 << 10);
    for id in Id::ALL.iter().copied() {
        let samples = snapshot.samples(id);
        if samples.is_empty() {
            continue;
        }
        let metric = id.metric();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {} {}", metric.name, Help(metric.help));
        let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind.name());
        for sample in samples {
            text.push_str(metric.name);
            for (place, (name, value)) in metric.labels.iter().zip(&sample.labels).enumerate() {
                let open = if place == 0 { '{' } else { ',' };
                let _ = write!(text, "{open}{name}=\"{}\"", Label(value));
            }
            if !metric.labels.is_empty() {
                text.push('}');
            }
            let _ = writeln!(text, " {}", sample.value);
        }
    }
    text
}

/// Help text: backslash and line feed are escaped.
struct Help<'a>(&'a str);

/// Label value: the quote is escaped as well.
struct Label<'a>(&'a str);

fn escaped(text: &str, quote: bool, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    for c in text.chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '"' if quote => f.write_str("\\\"")?,
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

impl std::fmt::Display for Help<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        escaped(self.0, false, f)
    }
}

impl std::fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        escaped(self.0, true, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::table::Process;

    #[test]
    fn each_metric_has_its_help_and_type_once_before_its_values() {
        let mut snapshot = Snapshot::new(Process::Tick);
        snapshot.add(Id::QueueLive, &["a"], true);
        snapshot.add(Id::QueueLive, &["b"], false);
        assert_eq!(
            render(&snapshot),
            "# HELP elastick_queue_live 1 while a connected node of the queue is live\n\
             # TYPE elastick_queue_live gauge\n\
             elastick_queue_live{queue=\"a\"} 1\n\
             elastick_queue_live{queue=\"b\"} 0\n"
        );
    }

    #[test]
    fn labels_are_escaped() {
        let mut snapshot = Snapshot::new(Process::Tick);
        snapshot.add(Id::QueueNodes, &["a\"\\\n{}é", "live"], 2u64);
        let line = "elastick_queue_nodes{queue=\"a\\\"\\\\\\n{}é\",state=\"live\"} 2\n";
        assert!(render(&snapshot).ends_with(line), "{}", render(&snapshot));
    }

    #[test]
    fn values_are_decimal_numbers_and_unknown_ones_are_absent() {
        let mut snapshot = Snapshot::new(Process::Node);
        snapshot.set(Id::Cushion, 1.5);
        snapshot.set(Id::LeadTime, None::<f64>);
        snapshot.set(Id::Updates, 1u64 << 40);
        let text = render(&snapshot);
        assert!(text.contains("\nelastick_cushion_ratio 1.5\n"), "{text}");
        assert!(text.contains("\nelastick_updates_total 1099511627776\n"), "{text}");
        assert!(!text.contains("lead_time"), "{text}");
    }
}
