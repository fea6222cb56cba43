//! `elastick plan` as its users run it.

use crate::harness::{Directory, elastick};
use serde_json::Value;

fn answer(arguments: &[&str]) -> Value {
    let output = elastick(&[&["plan", "--json"], arguments].concat()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Exit code and what is printed on standard error.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = elastick(&[&["plan"], arguments].concat()).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn each_type_is_played_under_each_threshold() {
    let all = answer(&["--type", "t3a.medium,r7g.medium", "--scale", "40,auto", "--roll", "70,85"]);
    let of = |case: &Value| format!("{} {} {}", case["instance_type"], case["scale"], case["roll_percent"]);
    let cases: Vec<String> = all["cases"].as_array().expect("cases").iter().map(of).collect();
    assert_eq!(cases.len(), 8, "{cases:?}");
    assert!(cases.contains(&"\"r7g.medium\" \"auto\" 85.0".to_string()), "{cases:?}");
    assert!(all["cases"].as_array().expect("cases").iter().all(|case| case["cost_usd"].as_f64() > Some(0.0)));
}

#[test]
fn the_same_seed_gives_the_same_days() {
    let days = |seed| answer(&["--days", "5", "--type", "t3a.small", "--seed", seed])["cases"].to_string();
    assert_eq!(days("7"), days("7"));
    assert_ne!(days("7"), days("8"));
}

#[test]
fn what_is_recommended_keeps_the_cushion() {
    let all = answer(&["--recommend", "--surge", "10", "--cushion", "3", "--type", "t3a.medium,r7g.medium,m7g.large"]);
    let best = &all["advice"]["recommended"];
    assert!(best["cushion"].as_f64().is_none_or(|cushion| cushion >= 3.0) && best["is_behind"] == false, "{best}");
    let parameters = all["advice"]["parameters"].to_string();
    for name in ["RDBINSTANCETYPE", "SCALETHRESHOLD", "ROLLTHRESHOLD", "MINNODES", "MAXNODES"] {
        assert!(parameters.contains(name), "{parameters}");
    }
    let never = answer(&["--recommend", "--surge", "100000", "--type", "t3a.small", "--max", "2"]);
    assert!(never["advice"]["recommended"].is_null(), "{never}");
}

#[test]
fn what_lag_and_dead_nodes_cost_counts_for_the_recommendation() {
    let recommended = |more: &[&str]| {
        let fixed = ["--recommend", "--cushion", "1", "--type", "t3a.small,t3a.xlarge", "--scale", "60"];
        answer(&[&fixed[..], more].concat())["advice"]["recommended"].clone()
    };
    let cheap = recommended(&[]);
    assert_eq!((&cheap["instance_type"], cheap["losses_usd"].as_f64()), (&Value::from("t3a.small"), Some(0.0)));
    let dear = recommended(&["--missing-usd", "1000", "--deaths", "1"]);
    assert!(dear["losses_usd"].as_f64() > Some(0.0), "{dear}");
    let lagging = answer(&["--surge", "1000", "--lag-usd", "1", "--type", "t3a.small"])["cases"][0].clone();
    assert_eq!(lagging["losses_usd"], lagging["behind_s"], "{lagging}");
}

#[test]
fn a_page_and_plots_are_written() {
    let directory = Directory::new("plan-page");
    let (page, plots) = (directory.path().join("plan.html"), directory.path().join("plots"));
    let arguments = ["--type", "t3a.large", "--scale", "20,60", "--paper", "--risk", "--risk-days", "2", "--recommend"];
    let mut command = elastick(&[&["plan"], &arguments[..]].concat());
    let output = command.arg("--html").arg(&page).arg("--svg").arg(&plots).output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && printed.contains("which is its cost as a part of the fixed server's"),
        "{printed}"
    );
    let text = std::fs::read_to_string(&page).expect("the page is there");
    let files = std::fs::read_dir(&plots).expect("the plots are there").count();
    assert_eq!((text.matches("<svg").count(), text.contains("http-equiv")), (files, false));
    assert!(files >= 9, "{files}");
}

#[test]
fn a_cluster_that_sleeps_is_planned_beside_the_one_that_is_awake() {
    let plan = answer(&["--type", "t3a.medium", "--wake", "first-query", "--queries", "09:00-18:00"]);
    let (awake, asleep) = (&plan["cases"][0], &plan["sleep"][0]);
    assert_eq!(asleep["awake_usd"], awake["cost_usd"]);
    let hours = |of: &Value, name: &str| of[name].as_f64().expect("a number");
    assert!((hours(asleep, "zero_hours") - 9.0).abs() < 0.1, "{asleep}");
    assert!(hours(asleep, "node_hours") < hours(awake, "node_hours") - 8.9, "{asleep}");
    assert!(hours(asleep, "first_answer_s") > 60.0, "the lead time, and then the replay: {asleep}");
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let directory = Directory::new("plan-wrong");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (unsorted, negative) = (file("unsorted.csv", "09:00,5\n08:00,5\n"), file("negative.csv", "09:00,-5\n"));
    let (prices, log) = (file("prices.toml", "date = \"d\"\nsource = \"s\"\ntype = []\n"), file("sym", "no log"));
    let closed = "zone = \"UTC\"\nopen = \"09:00\"\nclose = \"16:30\"\nend = \"17:00\"\nweekdays = []\n";
    let (closed, empty) = (file("closed.toml", closed), file("empty.csv", "09:00,5\n10:00,\n"));
    for (arguments, code, words) in [
        (&["--day", &unsorted][..], 2, "line 2: 08:00 is not after 09:00 of line 1"),
        (&["--day", &negative], 2, "line 1: -5 is no volume"),
        (&["--prices", &prices], 2, "--type: t3a.small is not in the list of prices of d"),
        (
            &["--type", "r7a.huge"],
            2,
            "r7a.huge is not in the list of prices of 2026-01-19, which has r7a.medium, r7a.large",
        ),
        (&["--scale", "85", "--roll", "80"], 2, "scale"),
        (&["--type", "t3a.micro", "--latent", "2GB"], 2, "an instance without data is over its roll threshold"),
        (&["--lag-usd", "-1"], 2, "'-1' for '--lag-usd <USD>': expected a number from 0 to 1000000"),
        (&["--scale", "-5"], 2, "'-5' for '--scale"),
        (&["--volume", "-1GB"], 2, "'-1GB' for '--volume <SIZE>'"),
        (&["--min", "5", "--max", "2"], 2, "--min 5 is more than --max 2"),
        (&["--log", &log], 1, "is not a tickerplant log"),
        (&["--log", &log, "--day", &unsorted], 2, "cannot be used with"),
        (&["--html", "/no/such/place/plan.html"], 2, "--html: /no/such/place is no directory"),
        (&["--risk-days", "100000", "--risk"], 2, "days in all"),
        (&["--wake", "noon"], 2, "use schedule, first-update, first-query or calendar"),
        (&["--wake", "calendar"], 2, "--wake calendar needs --calendar FILE"),
        (&["--wake", "calendar", "--calendar", &closed], 2, "the market never opens: weekdays is empty"),
        (&["--queries", "09:00-18:00"], 2, "--queries is for --wake and --idle-off"),
        (&["--wake", "first-query", "--queries", "18:00-09:00"], 2, "the first time must be before the second"),
        (&["--idle-off", "0s", "--queries", "09:00-18:00"], 2, "--queries is for --wake and --idle-off"),
        (&["--day", &empty], 2, "line 2: the volume is missing"),
    ] {
        let (exit, complaint) = refused(arguments);
        assert!(exit == Some(code) && complaint.contains(words), "{arguments:?}: {exit:?} {complaint}");
    }
}
