//! `_native.assign` and the bytes around it: kcoord_core's assignors with Python's lists, and the
//! embedded consumer protocol written. Nothing here decides anything.

use std::collections::HashMap;

use kcoord_core::assignor::sticky::user_data::{StickyUserData, cooperative_generation};
use kcoord_core::assignor::{self, Assignment, Compat, Group, GroupBuilder, NewMember, Strategy};
use kcoord_core::consumer_protocol::{self, Subscription};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple, PyType};
use pyo3::{PyTypeInfo, intern};

/// A topic, and the racks of its partitions, if they are known.
pub(crate) type Racks = Option<Vec<Vec<String>>>;

/// What a member brings, held for as long as the group borrows its strings.
struct Row<'py> {
    id: Bound<'py, PyString>,
    instance_id: Option<Bound<'py, PyString>>,
    rack_id: Option<Bound<'py, PyString>>,
    generation: Option<i32>,
    user_data: Option<Bound<'py, PyBytes>>,
    owned: Option<Bound<'py, PyAny>>,
    /// A place in the distinct lists of topics.
    topics: usize,
}

/// Lists of topics, by object: members often share one.
#[derive(Default)]
struct TopicLists<'py> {
    lists: Vec<Vec<Bound<'py, PyString>>>,
    /// By address. The objects are held, so that no other takes their place.
    places: HashMap<usize, usize>,
    held: Vec<Bound<'py, PyAny>>,
}

/// Assigns the partitions of `topics` (name to number of partitions, or to the racks of each) to
/// `members` (id to a list of topics, or to an object with the fields of a `Subscription`).
///
/// Returns the lists by member id, or says how the Java class fails, which takes `java`.
#[pyfunction]
pub fn assign<'py>(
    strategy: &str,
    topics: &Bound<'py, PyDict>,
    members: &Bound<'py, PyDict>,
    java: bool,
    partition_type: &Bound<'py, PyType>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = topics.py();
    let strategy = Strategy::of_name(strategy)
        .ok_or_else(|| argument_error(py, "strategy", &format!("{strategy:?} is not known")))?;
    assert!(partition_type.is_subclass_of::<PyTuple>()?, "partitions are tuples");
    let compat = if java { Compat::Java } else { Compat::Correct };

    let catalogue = read_topics(topics)?;
    let (rows, lists) = read_members(members)?;
    let mut builder = GroupBuilder::new(members.as_ptr() as u64);
    for (name, partitions, racks) in &catalogue {
        let topic = builder.add_topic(name.to_str()?, *partitions);
        if let Some(racks) = racks {
            let racks: Vec<Vec<&str>> =
                racks.iter().map(|racks| racks.iter().map(String::as_str).collect()).collect();
            builder.set_racks(topic, racks.iter().map(Vec::as_slice));
        }
    }
    let mut subscriptions = Vec::with_capacity(lists.len());
    for list in &lists {
        let topics: PyResult<Vec<u32>> =
            list.iter().map(|topic| Ok(builder.topic(topic.to_str()?))).collect();
        subscriptions.push(builder.subscription(&topics?));
    }
    for row in &rows {
        add_member(&mut builder, strategy, row, subscriptions[row.topics])?;
    }
    let group = builder
        .build()
        .map_err(|_| argument_error(py, "topics", "more than 2^28 partitions in all"))?;
    match assignor::assign(strategy, &group, compat) {
        Ok(assignment) => {
            let names: Vec<&Bound<'py, PyString>> =
                catalogue.iter().map(|topic| &topic.0).collect();
            let lists = to_python(&group, &assignment, &rows, &names, partition_type)?;
            Ok(lists.into_any())
        }
        Err(error) => Ok(PyString::new(py, &error.to_string()).into_any()),
    }
}

pub(crate) type Topic<'py> = (Bound<'py, PyString>, u32, Racks);

pub(crate) fn read_topics<'py>(topics: &Bound<'py, PyDict>) -> PyResult<Vec<Topic<'py>>> {
    let py = topics.py();
    let mut catalogue = Vec::with_capacity(topics.len());
    for (name, partitions) in topics.iter() {
        let refused = |reason: &str| argument_error(py, "topics", &format!("{name:?}: {reason}"));
        let name_text = name.cast::<PyString>().map_err(|_| refused("a name must be a str"))?;
        let topic = if partitions.is_instance_of::<PyInt>() {
            let count: i32 = partitions
                .extract()
                .map_err(|_| refused("the number of partitions is too large"))?;
            let count = u32::try_from(count)
                .map_err(|_| refused("the number of partitions must not be negative"))?;
            (name_text.clone(), count, None)
        } else {
            let racks: Vec<Vec<String>> = partitions
                .extract()
                .map_err(|_| refused("must be a number of partitions, or the racks of each"))?;
            (name_text.clone(), racks.len() as u32, Some(racks))
        };
        catalogue.push(topic);
    }
    Ok(catalogue)
}

type Members<'py> = (Vec<Row<'py>>, Vec<Vec<Bound<'py, PyString>>>);

fn read_members<'py>(members: &Bound<'py, PyDict>) -> PyResult<Members<'py>> {
    let py = members.py();
    let mut lists = TopicLists::default();
    let mut rows = Vec::with_capacity(members.len());
    for (id, member) in members.iter() {
        let refused = |reason: String| argument_error(py, "members", &format!("{id:?}: {reason}"));
        let id = id.cast::<PyString>().map_err(|_| refused("an id must be a str".into()))?;
        let row = if member.is_instance_of::<PyList>() || member.is_instance_of::<PyTuple>() {
            let topics = lists.place(member);
            Row {
                id: id.clone(),
                instance_id: None,
                rack_id: None,
                generation: None,
                user_data: None,
                owned: None,
                topics: topics.map_err(|reason| refused(reason.to_string()))?,
            }
        } else if member.is_instance_of::<PyString>() {
            return Err(refused("must be a list of topics, not a str".into()));
        } else {
            read_subscription(id, &member, &mut lists)
                .map_err(|reason| refused(reason.value(py).to_string()))?
        };
        rows.push(row);
    }
    Ok((rows, lists.lists))
}

fn read_subscription<'py>(
    id: &Bound<'py, PyString>,
    member: &Bound<'py, PyAny>,
    lists: &mut TopicLists<'py>,
) -> PyResult<Row<'py>> {
    let py = member.py();
    let owned = member.getattr(intern!(py, "owned_partitions"))?;
    Ok(Row {
        id: id.clone(),
        instance_id: member.getattr(intern!(py, "group_instance_id"))?.extract()?,
        rack_id: member.getattr(intern!(py, "rack_id"))?.extract()?,
        generation: member.getattr(intern!(py, "generation_id"))?.extract()?,
        user_data: member.getattr(intern!(py, "user_data"))?.extract()?,
        owned: Some(owned),
        topics: lists.place(member.getattr(intern!(py, "topics"))?)?,
    })
}

impl<'py> TopicLists<'py> {
    /// The place of a list of topics. What is missed here, [`GroupBuilder::subscription`] finds:
    /// that a list equals another than the last.
    fn place(&mut self, topics: Bound<'py, PyAny>) -> PyResult<usize> {
        let address = topics.as_ptr() as usize;
        if let Some(&place) = self.places.get(&address) {
            return Ok(place);
        }
        if topics.is_instance_of::<PyString>() {
            return Err(PyValueError::new_err("topics must be a list of str, not a str"));
        }
        if !self.equals_last(&topics)? {
            let topics: Vec<Bound<'py, PyAny>> = topics.try_iter()?.collect::<PyResult<_>>()?;
            let names = topics.into_iter().map(|topic| topic.cast_into::<PyString>());
            let names: Result<_, _> = names.collect();
            let wrong = |_| PyValueError::new_err("topics must be a list of str");
            self.lists.push(names.map_err(wrong)?);
        }
        let place = self.lists.len() - 1;
        self.places.insert(address, place);
        self.held.push(topics);
        Ok(place)
    }

    /// Members that were decoded one by one have lists of their own, which are mostly equal.
    fn equals_last(&self, topics: &Bound<'py, PyAny>) -> PyResult<bool> {
        match self.held.last() {
            Some(last) if last.is_instance_of::<PyList>() => last.eq(topics),
            _ => Ok(false),
        }
    }
}

fn add_member<'a>(
    builder: &mut GroupBuilder<'a>,
    strategy: Strategy,
    row: &'a Row<'_>,
    subscription: u32,
) -> PyResult<()> {
    let user_data = row.user_data.as_ref().map(|data| data.as_bytes());
    let generation = row.generation.filter(|&generation| generation >= 0);
    let text =
        |text: &'a Option<Bound<'_, PyString>>| text.as_ref().map(|t| t.to_str()).transpose();
    let sticky = match strategy {
        Strategy::Sticky => StickyUserData::decode(user_data),
        _ => StickyUserData::default(),
    };
    let member = NewMember {
        id: row.id.to_str()?,
        instance_id: text(&row.instance_id)?,
        rack_id: text(&row.rack_id)?,
        generation,
        ..NewMember::default()
    };
    add_with_sticky_claims(builder, strategy, member, &sticky, user_data, subscription);
    match &row.owned {
        Some(owned) if strategy.knows_the_past() && strategy != Strategy::Sticky => {
            add_claims(builder, owned).map_err(|error| {
                let reason = format!("{:?}: {}", row.id, error.value(owned.py()));
                argument_error(owned.py(), "members", &reason)
            })
        }
        _ => Ok(()),
    }
}

/// A member with what it owned by its user data, for `sticky`: for the other strategies only the
/// generation is of them.
pub(crate) fn add_with_sticky_claims<'a>(
    builder: &mut GroupBuilder<'a>,
    strategy: Strategy,
    member: NewMember<'a>,
    sticky: &StickyUserData<'_>,
    user_data: Option<&[u8]>,
    subscription: u32,
) {
    let claim_generation = match strategy {
        Strategy::Sticky => sticky.generation,
        _ => member.generation.or_else(|| cooperative_generation(user_data)),
    };
    builder.add_member(NewMember { claim_generation, ..member }, subscription);
    for (topic, numbers) in &sticky.partitions {
        let topic = str::from_utf8(topic).ok().and_then(|name| builder.existing_topic(name));
        if let Some(topic) = topic {
            numbers.iter().for_each(|&number| builder.add_claim(topic, number));
        }
    }
}

fn add_claims(builder: &mut GroupBuilder<'_>, owned: &Bound<'_, PyAny>) -> PyResult<()> {
    const WRONG: &str = "owned_partitions must be pairs of a topic and a number";
    let wrong = || PyValueError::new_err(WRONG);
    let mut last: Option<(Bound<'_, PyAny>, Option<u32>)> = None;
    for claim in owned.try_iter()? {
        let claim = claim?;
        let claim = claim.cast::<PyTuple>().map_err(|_| wrong())?;
        if claim.len() != 2 {
            return Err(wrong());
        }
        let name = claim.get_item(0)?;
        let topic = match &last {
            Some((last, topic)) if last.is(&name) => *topic,
            _ => {
                let text = name.cast::<PyString>().map_err(|_| wrong())?;
                let topic = builder.existing_topic(text.to_str()?);
                last = Some((name, topic));
                topic
            }
        };
        let number = claim.get_item(1)?.extract().map_err(|_| wrong())?;
        if let Some(topic) = topic {
            builder.add_claim(topic, number);
        }
    }
    Ok(())
}

/// Keeps the cycle collector out while many objects are made that cannot form a cycle.
struct Uncollected(bool);

impl Uncollected {
    fn new(_: Python<'_>) -> Self {
        // Sound: called while attached to the interpreter.
        Uncollected(unsafe { ffi::PyGC_Disable() } == 1)
    }
}

impl Drop for Uncollected {
    fn drop(&mut self) {
        if self.0 {
            // Sound: as above; the guard does not outlive the call that made it.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

fn to_python<'py>(
    group: &Group<'_>,
    assignment: &Assignment,
    rows: &[Row<'py>],
    catalogue: &[&Bound<'py, PyString>],
    partition_type: &Bound<'py, PyType>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = partition_type.py();
    let _uncollected = Uncollected::new(py);
    let mut by_name: Vec<(&str, &Bound<'py, PyString>)> = Vec::with_capacity(catalogue.len());
    for name in catalogue {
        by_name.push((name.to_str()?, name));
    }
    by_name.sort_unstable_by_key(|&(name, _)| name);
    let place = |name: &&str| by_name.binary_search_by_key(name, |&(name, _)| name).ok();
    let topics: Vec<Option<&Bound<'py, PyString>>> =
        group.topic_names().iter().map(|name| place(name).map(|at| by_name[at].1)).collect();
    let partitions = Partitions::new(group, &topics, partition_type);
    let lists = PyDict::new(py);
    for (member, row) in rows.iter().enumerate() {
        let list: PyResult<Vec<Bound<'py, PyAny>>> =
            assignment.of(member).iter().map(|&partition| partitions.make(partition)).collect();
        lists.set_item(&row.id, PyList::new(py, list?)?)?;
    }
    Ok(lists)
}

/// Makes `TopicPartition`s.
struct Partitions<'a, 'py> {
    group: &'a Group<'a>,
    topics: &'a [Option<&'a Bound<'py, PyString>>],
    numbers: Vec<Bound<'py, PyInt>>,
    partition_type: &'a Bound<'py, PyType>,
}

impl<'a, 'py> Partitions<'a, 'py> {
    fn new(
        group: &'a Group<'a>,
        topics: &'a [Option<&'a Bound<'py, PyString>>],
        partition_type: &'a Bound<'py, PyType>,
    ) -> Self {
        let py = partition_type.py();
        let sizes = group.first_partitions().windows(2).map(|pair| pair[1] - pair[0]);
        let numbers = (0..sizes.max().unwrap_or(0)).map(|number| PyInt::new(py, number)).collect();
        Partitions { group, topics, numbers, partition_type }
    }

    fn make(&self, partition: u32) -> PyResult<Bound<'py, PyAny>> {
        let py = self.partition_type.py();
        let (topic, number) = self.group.place(partition);
        let name = self.topics[topic as usize].expect("a topic of the catalogue");
        let number = match self.numbers.get(number as usize) {
            Some(known) if number >= 0 => known.clone(),
            _ => PyInt::new(py, number),
        };
        let pair = PyTuple::new(py, [name.as_any(), number.as_any()])?;
        let arguments = PyTuple::new(py, [pair])?;
        // What `tuple.__new__(partition_type, pair)` calls, without looking it up each time.
        // Sound: the type is a subtype of tuple, as `assign` asserts; a null pointer
        // is an exception that is set.
        unsafe {
            let tuple = PyTuple::type_object_raw(py);
            let new = (*tuple).tp_new.expect("tuples can be made");
            let made =
                new(self.partition_type.as_type_ptr(), arguments.as_ptr(), core::ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, made)
        }
    }
}

/// A ConsumerProtocolSubscription of `version` (0 to 3), sorted as Java clients sort it.
#[pyfunction]
pub fn encode_subscription<'py>(
    py: Python<'py>,
    version: i16,
    topics: Vec<String>,
    user_data: Option<&[u8]>,
    owned_partitions: Vec<(String, Vec<i32>)>,
    generation_id: i32,
    rack_id: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    check_version(version)?;
    let owned = owned_partitions.iter().map(|(topic, numbers)| (topic.as_str(), numbers.clone()));
    let mut subscription = Subscription {
        version,
        topics: topics.iter().map(String::as_str).collect(),
        user_data,
        owned_partitions: owned.collect(),
        generation_id,
        rack_id,
    };
    subscription.sort();
    let mut out = Vec::new();
    subscription.encode(&mut out);
    Ok(PyBytes::new(py, &out))
}

/// A ConsumerProtocolAssignment of `version` (0 to 3), topics in the given order.
#[pyfunction]
pub fn encode_assignment<'py>(
    py: Python<'py>,
    version: i16,
    assigned_partitions: Vec<(String, Vec<i32>)>,
    user_data: Option<&[u8]>,
) -> PyResult<Bound<'py, PyBytes>> {
    check_version(version)?;
    let topics = assigned_partitions.iter();
    let assigned_partitions =
        topics.map(|(topic, numbers)| (topic.as_str(), numbers.clone())).collect();
    let mut out = Vec::new();
    consumer_protocol::Assignment { version, assigned_partitions, user_data }.encode(&mut out);
    Ok(PyBytes::new(py, &out))
}

fn check_version(version: i16) -> PyResult<()> {
    match (0..=consumer_protocol::LATEST_VERSION).contains(&version) {
        true => Ok(()),
        false => Err(PyValueError::new_err("version: must be 0 to 3")),
    }
}

/// The user data of Java's `StickyAssignor`: v1, or v0 without a generation.
#[pyfunction]
pub fn sticky_user_data<'py>(
    py: Python<'py>,
    partitions: Vec<(String, i32)>,
    generation: Option<i32>,
) -> Bound<'py, PyBytes> {
    let partitions: Vec<(&str, i32)> =
        partitions.iter().map(|(topic, number)| (topic.as_str(), *number)).collect();
    let mut out = Vec::new();
    StickyUserData::of(&partitions, generation).encode(&mut out);
    PyBytes::new(py, &out)
}

/// What `sticky_user_data` wrote: partitions and generation. Bytes that are none are a member
/// that owned nothing in generation -1.
#[pyfunction]
pub fn read_sticky_user_data(data: &[u8]) -> (Vec<(String, i32)>, Option<i32>) {
    let data = StickyUserData::decode(Some(data));
    let topics = data.partitions.iter();
    let partitions = topics.flat_map(|(topic, numbers)| {
        let topic = String::from_utf8_lossy(topic).into_owned();
        numbers.iter().map(move |&number| (topic.clone(), number))
    });
    (partitions.collect(), data.generation)
}

/// `pykcoord.errors.ArgumentError`.
pub(crate) fn argument_error(py: Python<'_>, argument: &str, reason: &str) -> PyErr {
    static ARGUMENT_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match ARGUMENT_ERROR.import(py, "pykcoord.errors", "ArgumentError") {
        Ok(class) => match class.call1((argument, reason)) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        },
        Err(error) => error,
    }
}
