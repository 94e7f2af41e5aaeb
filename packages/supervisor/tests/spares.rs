//! How many idle channels are kept dialled, as the agent says.

mod support;

use boxoffice_supervisor::wire::Kind;
use serde_json::json;
use support::Agent;

/// However many are asked for.
const LIMIT: usize = 256;

fn channels(agent: &mut Agent) -> u64 {
    agent.call(json!({"op": "statistics"})).unwrap()["channels"].as_u64().unwrap()
}

fn ask(agent: &mut Agent, n: usize) {
    agent.control.send(Kind::Spare, &json!({ "n": n }));
}

#[test]
fn spare_channels_are_kept_as_many_as_the_agent_asks_for() {
    let mut agent = Agent::new();
    agent.until("the welcome's number is dialled", |agent| channels(agent) == 3);
    let first: Vec<_> = (0..3).map(|_| agent.channel()).collect();
    ask(&mut agent, 0);
    drop(first);
    agent.until("none is dialled again", |agent| channels(agent) == 0);
    ask(&mut agent, 2);
    agent.until("two are dialled", |agent| channels(agent) == 2);
    assert_eq!(agent.sh("echo there").stdout, b"there\n");
    ask(&mut agent, 1_000_000);
    // More wait to be taken than a listener's queue holds.
    let taken: Vec<_> = (0..LIMIT).map(|_| agent.channel()).collect();
    assert_eq!(channels(&mut agent), LIMIT as u64);
    drop(taken);
}

#[test]
fn a_new_agent_asks_anew() {
    let mut agent = Agent::new();
    ask(&mut agent, 0);
    agent.restart();
    agent.until("the welcome's number is dialled", |agent| channels(agent) == 3);
    assert_eq!(agent.sh("echo there").stdout, b"there\n");
}
