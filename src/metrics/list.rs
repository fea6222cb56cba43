//! The page that lists all metrics: `src/metrics/METRICS.md`.

use super::table::{Id, Metric};
use std::fmt::Write;

/// Generates the page from the table.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\nGenerated from `table.rs`; a test checks that it is current (`UPDATE_METRICS=1 cargo test \
         --lib metrics::list` regenerates it).\n\n`GET /metrics` on a process's port returns them in Prometheus' \
         text format. With `--cloudwatch`, those that have a\nname in CloudWatch are published in the namespace \
         `RdbCluster` under `AutoScalingGroupName` and `InstanceId`; those\nmarked *group* also under \
         `AutoScalingGroupName` alone. A counter is published as its increase in the period.\n\n| Prometheus | \
         type | of | labels | CloudWatch | meaning |\n|---|---|---|---|---|---|\n",
    );
    for metric in Id::ALL.iter().map(|id| id.metric()) {
        // Writing to a String cannot fail.
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

    /// Names of the metrics in the CloudFormation templates, and whether each is used per group.
    fn of_templates() -> Vec<(String, bool)> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/cloudformation");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let yaml = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "yaml"));
        let texts: Vec<String> = yaml.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
        let word = |text: &str| text.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
        let mut names = Vec::new();
        for line in texts.iter().flat_map(|text| text.lines()) {
            // Alarms use the group's metrics; AWS's own metrics of a group start with its name.
            names.extend(line.trim().strip_prefix("MetricName: ").map(|name| (word(name), true)));
            names.extend(line.split("MetricName=\\\"").skip(1).map(|name| (word(name), false)));
            names.extend(line.split("[\"RdbCluster\", \"").skip(1).map(|name| (word(name), true)));
        }
        names.retain(|(name, _)| !name.starts_with("Group"));
        names
    }

    #[test]
    fn metrics_of_alarms_and_dashboards_are_published() {
        for (name, of_group) in of_templates() {
            let published = Id::ALL.iter().filter_map(|id| id.metric().cloudwatch).find(|of| of.name == name);
            let published = published.unwrap_or_else(|| panic!("nobody publishes {name}"));
            assert!(published.per_group || !of_group, "{name} is not published for the group");
        }
    }

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
