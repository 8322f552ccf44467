//! `tests/vectors/*.jsonl`: cases with what Kafka's Java classes made of them, list order
//! included.

use kcoord_core::assignor::{
    self, Compat, GroupBuilder, NewMember, Strategy, sticky::user_data::StickyUserData,
};
use serde_json::{Map, Value, json};

const FILES: [&str; 4] = [
    include_str!("../../../../tests/vectors/assignors.jsonl"),
    include_str!("../../../../tests/vectors/assignors-edge.jsonl"),
    include_str!("../../../../tests/vectors/assignors-large.jsonl"),
    include_str!("../../../../tests/vectors/seed-examples.jsonl"),
];

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn int(value: &Value) -> i32 {
    value.as_i64().expect("a number") as i32
}

fn partitions(value: &Value) -> Vec<(&str, i32)> {
    let pairs = value.as_array().into_iter().flatten();
    pairs.map(|pair| (text(&pair[0]), int(&pair[1]))).collect()
}

/// Through the bytes, as between Java's members.
fn sticky_claims(user_data: &[u8], present: bool) -> (Vec<(String, i32)>, Option<i32>) {
    let data = StickyUserData::decode(present.then_some(user_data));
    let topics = data.partitions.iter();
    let claims = topics.flat_map(|(topic, numbers)| {
        let topic = str::from_utf8(topic).expect("UTF-8");
        numbers.iter().map(|&number| (topic.to_owned(), number))
    });
    (claims.collect(), data.generation)
}

fn add_topics<'a>(builder: &mut GroupBuilder<'a>, topics: &'a Map<String, Value>) {
    for (name, partitions) in topics {
        match partitions.as_array() {
            None => {
                builder.add_topic(name, int(partitions) as u32);
            }
            Some(racks) => {
                let topic = builder.add_topic(name, racks.len() as u32);
                let racks: Vec<Vec<&str>> = racks
                    .iter()
                    .map(|racks| racks.as_array().expect("racks").iter().map(text).collect())
                    .collect();
                builder.set_racks(topic, racks.iter().map(Vec::as_slice));
            }
        }
    }
}

fn add_member<'a>(builder: &mut GroupBuilder<'a>, strategy: Strategy, member: &'a Value) {
    let topics = member["topics"].as_array().expect("topics").iter();
    let topics: Vec<u32> = topics.map(|topic| builder.topic(text(topic))).collect();
    let subscription = builder.subscription(&topics);
    let generation = member.get("gen").map(int).filter(|&generation| generation >= 0);
    let (claims, claim_generation) = match strategy {
        Strategy::Sticky => {
            let prior = partitions(&member["prev"]);
            let mut user_data = Vec::new();
            StickyUserData::of(&prior, member.get("prevGen").map(int)).encode(&mut user_data);
            sticky_claims(&user_data, member.get("prev").is_some())
        }
        _ => {
            let user_data = member.get("udGen").map(int);
            let claims = partitions(&member["owned"]);
            let claims = claims.into_iter().map(|(topic, number)| (topic.to_owned(), number));
            (claims.collect(), generation.or(user_data))
        }
    };
    builder.add_member(
        NewMember {
            id: text(&member["id"]),
            instance_id: member.get("instance").map(text),
            rack_id: member.get("rack").map(text),
            generation,
            claim_generation,
        },
        subscription,
    );
    for (topic, number) in claims {
        if let Some(topic) = builder.existing_topic(&topic) {
            builder.add_claim(topic, number);
        }
    }
}

/// The lists by member, or how Java fails.
fn assigned(case: &Value, compat: Compat) -> Value {
    let strategy = Strategy::of_name(text(&case["assignor"])).expect("a strategy");
    let mut builder = GroupBuilder::new(1);
    add_topics(&mut builder, case["topics"].as_object().expect("topics"));
    for member in case["members"].as_array().expect("members") {
        add_member(&mut builder, strategy, member);
    }
    let group = builder.build().expect("few partitions");
    let assignment = match assignor::assign(strategy, &group, compat) {
        Ok(assignment) => assignment,
        Err(error) => return json!(error.to_string()),
    };
    let lists = group.members().iter().enumerate().map(|(at, member)| {
        let list = assignment.of(at).iter().map(|&partition| json!(group.partition(partition)));
        (member.id.to_owned(), list.collect())
    });
    Value::Object(lists.collect())
}

#[test]
fn java_gives_the_same_lists() {
    let mut wrong = Vec::new();
    let lines = FILES.iter().flat_map(|file| file.lines());
    for (number, line) in lines.enumerate() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let found = assigned(&line["case"], Compat::Java);
        let sound = match line.get("expected") {
            Some(expected) => &found == expected,
            None => found.is_string(),
        };
        if !sound {
            wrong.push(format!("{number}: {}\n   found {found}", line));
        }
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}
