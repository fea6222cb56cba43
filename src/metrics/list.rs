//! The page that lists all metrics: `src/metrics/METRICS.md`.

use super::table::{Id, Metric};
use std::fmt::Write;

/// The page, made of the table.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         Made of `table.rs`; a test keeps it current (`UPDATE_METRICS=1 cargo test --lib metrics::list` writes it anew).\n\n\
         `GET /metrics` on a process's port answers with them in Prometheus' text format. With `--cloudwatch` those that have a\n\
         name in CloudWatch are published in the namespace `RdbCluster` under `AutoScalingGroupName` and `InstanceId`; those\n\
         marked *group* also under `AutoScalingGroupName` alone. A counter is published as what came in the period.\n\n\
         | Prometheus | type | of | labels | CloudWatch | meaning |\n|---|---|---|---|---|---|\n",
    );
    for metric in Id::ALL.iter().map(|id| id.metric()) {
        // Writing to a String does not fail.
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} |",
            metric.name,
            metric.kind.name(),
            metric.of.name(),
            metric.labels.join(", "),
            published(metric),
            metric.help
        );
    }
    page
}

fn published(metric: &Metric) -> String {
    let Some(published) = metric.cloudwatch else { return String::new() };
    let of = if published.of == metric.of { String::new() } else { format!(", {} only", published.of.name()) };
    let group = if published.per_group { ", group" } else { "" };
    format!("`{}` ({}{of}{group})", published.name, published.unit.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics/METRICS.md");
        if std::env::var_os("UPDATE_METRICS").is_some() {
            std::fs::write(&path, page()).expect("written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, page(), "{} is not what the table says", path.display());
    }
}
