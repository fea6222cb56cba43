//! HTTP server with scripted responses, for both the metadata service and the scaling service.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: a path of the metadata service, or the action of a call.
#[derive(Clone, Debug)]
pub struct Request {
    pub what: String,
    pub body: String,
    pub authorization: String,
}

/// A response.
#[derive(Clone, Debug)]
pub enum Reply {
    Text(u16, String),
    /// Close the connection instead.
    Drop,
}

impl Reply {
    pub fn ok(text: &str) -> Reply {
        Reply::Text(200, text.to_string())
    }

    /// The response to a call.
    pub fn xml(action: &str, result: &str) -> Reply {
        let ns = "http://autoscaling.amazonaws.com/doc/2011-01-01/";
        Reply::ok(&format!(
            r#"<{action}Response xmlns="{ns}"><{action}Result>{result}</{action}Result><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></{action}Response>"#
        ))
    }

    pub fn error(status: u16, code: &str, message: &str) -> Reply {
        let text = format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
        );
        Reply::Text(status, text)
    }
}

/// Minimum, desired capacity and maximum of a group, and its instances with their states.
type Shape<'a> = (u32, u32, u32, &'a [(&'a str, &'a str)]);

type Answers = Mutex<HashMap<String, Vec<Reply>>>;

/// Scripted server: each path or action has a sequence of responses, of which the last repeats.
pub struct Server {
    pub url: String,
    answers: Arc<Answers>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// A server that knows an instance `i-1` of the group `g`, with a role.
    pub fn of_an_instance() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let server = Server { url, answers: Arc::default(), requests: Arc::default() };
        let (answers, requests) = (Arc::clone(&server.answers), Arc::clone(&server.requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answers, requests) = (Arc::clone(&answers), Arc::clone(&requests));
                std::thread::spawn(move || serve(stream, &answers, &requests));
            }
        });
        let credentials = r#"{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"k","SecretAccessKey":"s","Token":"t",
            "LastUpdated":"2026-01-01T00:00:00Z","Expiration":"2126-01-01T00:00:00Z"}"#;
        server
            .set("placement/region", &[Reply::ok("eu-west-1")])
            .set("instance-id", &[Reply::ok("i-1")])
            .set("tags/instance/aws:autoscaling:groupName", &[Reply::ok("g")])
            .set("iam/security-credentials/", &[Reply::ok("role")])
            .set("iam/security-credentials/role", &[Reply::ok(credentials)])
            .set("DescribeLifecycleHooks", &[Reply::xml("DescribeLifecycleHooks", "<LifecycleHooks/>")])
            .set("SetDesiredCapacity", &[Reply::xml("SetDesiredCapacity", "")])
            .set("SetInstanceProtection", &[Reply::xml("SetInstanceProtection", "")])
            .set("TerminateInstanceInAutoScalingGroup", &[Reply::xml("TerminateInstanceInAutoScalingGroup", "")])
    }

    pub fn set(self, what: &str, replies: &[Reply]) -> Server {
        self.answers.lock().expect("no panic").insert(what.to_string(), replies.to_vec());
        self
    }

    /// Adds a sequence of group descriptions.
    pub fn groups(self, groups: &[Shape]) -> Server {
        let group = |(min, desired, max, members): &Shape| {
            let member = |(id, state): &(&str, &str)| {
                format!(
                    "<member><InstanceId>{id}</InstanceId><LifecycleState>{state}</LifecycleState><HealthStatus>Healthy</HealthStatus><ProtectedFromScaleIn>true</ProtectedFromScaleIn></member>"
                )
            };
            let members: String = members.iter().map(member).collect();
            let group = format!(
                "<AutoScalingGroups><member><AutoScalingGroupName>g</AutoScalingGroupName><MinSize>{min}</MinSize><MaxSize>{max}</MaxSize><DesiredCapacity>{desired}</DesiredCapacity><Instances>{members}</Instances></member></AutoScalingGroups>"
            );
            Reply::xml("DescribeAutoScalingGroups", &group)
        };
        let replies: Vec<Reply> = groups.iter().map(group).collect();
        self.set("DescribeAutoScalingGroups", &replies)
    }

    /// Returns how often a path or action was requested.
    pub fn count(&self, what: &str) -> usize {
        self.requests(what).len()
    }

    pub fn requests(&self, what: &str) -> Vec<Request> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().filter(|request| request.what == what).cloned().collect()
    }
}

fn serve(stream: TcpStream, answers: &Answers, requests: &Mutex<Vec<Request>>) {
    let mut writer = stream.try_clone().expect("a socket");
    let mut reader = BufReader::new(stream);
    while let Some((method, path, headers, body)) = read(&mut reader) {
        if method == "PUT" {
            respond(&mut writer, 200, "token", "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n");
            continue;
        }
        let what = match method.as_str() {
            "GET" => path.trim_start_matches("/latest/").trim_start_matches("meta-data/").to_string(),
            _ => {
                let action = body.split('&').find_map(|pair| pair.strip_prefix("Action="));
                action.unwrap_or_default().to_string()
            }
        };
        if method == "GET" && headers.get("x-aws-ec2-metadata-token").map(String::as_str) != Some("token") {
            respond(&mut writer, 401, "", "");
            continue;
        }
        let authorization = headers.get("authorization").cloned().unwrap_or_default();
        requests.lock().expect("no panic").push(Request { what: what.clone(), body, authorization });
        let mut answers = answers.lock().expect("no panic");
        let reply = match answers.get_mut(&what) {
            Some(replies) if replies.len() > 1 => Some(replies.remove(0)),
            Some(replies) => replies.first().cloned(),
            None => None,
        };
        drop(answers);
        match reply.unwrap_or_else(|| Reply::Text(404, format!("no {what}"))) {
            Reply::Text(status, text) => respond(&mut writer, status, &text, ""),
            Reply::Drop => return,
        }
    }
}

fn respond(writer: &mut TcpStream, status: u16, text: &str, headers: &str) {
    let head = format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n", text.len());
    let _ = writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(text.as_bytes()));
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, String, HashMap<String, String>, String)> {
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        Some(line.trim_end().to_string())
    };
    let first = line(reader)?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_string(), words.next()?.to_string());
    let mut headers = HashMap::new();
    loop {
        let header = line(reader)?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_string());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, path, headers, String::from_utf8_lossy(&body).into_owned()))
}
