//! `_native.BulkAssignor`: an assignor over rows of Arrow, thousands of groups in one call. Reads
//! columns, cuts them into groups and writes lists; decides nothing, and touches no Python object
//! between.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int32Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_pyarrow::PyArrowType;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use kcoord_core::assignor::sticky::user_data::StickyUserData;
use kcoord_core::assignor::{self, Compat, GroupBuilder, NewMember, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::assignor::{add_with_sticky_claims, argument_error, read_topics};

/// A batch that is returned ends with the group that brings it over so many partitions.
const PARTITIONS_PER_BATCH: usize = 1 << 20;
/// More bytes of names do not fit into one column.
const MAX_NAME_BYTES: usize = i32::MAX as usize;

type Result<T> = std::result::Result<T, String>;

/// How many partitions a topic has, and their racks, if they are known.
struct Topic {
    partitions: u32,
    racks: Option<Vec<Vec<String>>>,
}

/// An assignor for many groups at once, over rows of Arrow. `strategy` is one of
/// `pykcoord.assignors.STRATEGIES`; `topics` gives by name the number of partitions, or the racks of
/// each. `assign(members)` takes a `pyarrow.RecordBatch` with a row for each member, the rows of a
/// group together and sorted by member id, and returns batches of `group_id`, `member_id` and
/// `partitions`. Both raise ArgumentError, which names column or group.
#[pyclass(name = "BulkAssignor", module = "pykcoord._native", frozen)]
pub struct PyBulkAssignor {
    strategy: Strategy,
    topics: HashMap<String, Topic>,
    schema: SchemaRef,
}

#[pymethods]
impl PyBulkAssignor {
    #[new]
    fn new(strategy: &str, topics: &Bound<'_, PyDict>) -> PyResult<Self> {
        let py = topics.py();
        let strategy = Strategy::of_name(strategy).ok_or_else(|| {
            let names: Vec<&str> = Strategy::ALL.iter().map(|known| known.name()).collect();
            let reason = format!("{strategy:?} is none of {}", names.join(", "));
            argument_error(py, "strategy", &reason)
        })?;
        let mut catalogue = HashMap::new();
        for (name, partitions, racks) in read_topics(topics)? {
            catalogue.insert(name.to_str()?.to_owned(), Topic { partitions, racks });
        }
        Ok(PyBulkAssignor { strategy, topics: catalogue, schema: schema() })
    }

    /// What each member gets; the rows of a group must be together, sorted by the member's id.
    fn assign(
        &self,
        py: Python<'_>,
        members: PyArrowType<RecordBatch>,
    ) -> PyResult<Vec<PyArrowType<RecordBatch>>> {
        let batch = members.0;
        let assigned = py.detach(|| self.assign_all(&batch));
        let batches = assigned.map_err(|reason| argument_error(py, "members", &reason))?;
        Ok(batches.into_iter().map(PyArrowType).collect())
    }
}

impl PyBulkAssignor {
    fn assign_all(&self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let rows = Rows::of(batch)?;
        let mut batches = Vec::new();
        let mut lists = Lists::default();
        let (mut first, mut start) = (0, 0);
        while start < batch.num_rows() {
            let group_id = rows.group_id.value(start);
            let same = |&row: &usize| rows.group_id.value(row) == group_id;
            let end = (start + 1..batch.num_rows()).take_while(same).count() + start + 1;
            if end < batch.num_rows() && rows.group_id.value(end) < group_id {
                return Err(format!("group {group_id:?}: the rows are not sorted by group"));
            }
            let assigned = self.assign_group(&rows, start..end, &mut lists);
            assigned.map_err(|reason| format!("group {group_id:?}: {reason}"))?;
            start = end;
            if lists.numbers.len() >= PARTITIONS_PER_BATCH || start == batch.num_rows() {
                let lists = core::mem::take(&mut lists);
                batches.push(lists.finish(batch, first..start, &self.schema));
                first = start;
            }
        }
        Ok(batches)
    }

    fn assign_group(&self, rows: &Rows<'_>, range: Range<usize>, lists: &mut Lists) -> Result<()> {
        let mut builder = GroupBuilder::new(range.start as u64);
        self.add_topics(rows, range.clone(), &mut builder)?;
        let mut subscription = 0;
        for row in range.clone() {
            let id = rows.member_id.value(row);
            if row > range.start {
                match rows.member_id.value(row - 1).cmp(id) {
                    core::cmp::Ordering::Less => {}
                    core::cmp::Ordering::Equal => {
                        return Err(format!("member {id:?} is there twice"));
                    }
                    core::cmp::Ordering::Greater => {
                        return Err("its rows are not sorted by member".into());
                    }
                }
            }
            if row == range.start || !rows.topics.are_equal(row - 1, row) {
                let names =
                    rows.topics.row(row).map(|at| builder.topic(rows.topics.names.value(at)));
                let topics: Vec<u32> = names.collect();
                subscription = builder.subscription(&topics);
            }
            self.add_member(rows, row, subscription, &mut builder)
                .map_err(|reason| format!("member {id:?}: {reason}"))?;
        }
        let group = builder.build().map_err(|_| "more than 2^28 partitions in all")?;
        let assignment = assignor::assign(self.strategy, &group, Compat::Correct)
            .map_err(|error| error.to_string())?;
        for member in 0..range.len() {
            for &partition in assignment.of(member) {
                let (topic, number) = group.partition(partition);
                lists.add(topic, number)?;
            }
            lists.ends.push(lists.numbers.len() as i32);
        }
        Ok(())
    }

    /// The catalogue of one group: what its members subscribe to and what exists.
    fn add_topics<'a>(
        &'a self,
        rows: &Rows<'a>,
        range: Range<usize>,
        builder: &mut GroupBuilder<'a>,
    ) -> Result<()> {
        let mut counts: HashMap<&str, i32> = HashMap::new();
        for row in range.clone() {
            if rows.topics.lists.is_null(row) {
                return Err(format!("column topics is NULL for {:?}", rows.member_id.value(row)));
            }
            if row > range.start && rows.topics.are_equal(row - 1, row) {
                continue;
            }
            for at in rows.topics.row(row) {
                if rows.topics.names.is_null(at) {
                    return Err("column topics has a NULL in it".into());
                }
                let name = rows.topics.names.value(at);
                let Some(partitions) = rows.topics.counts else {
                    self.add_known(name, builder);
                    continue;
                };
                if partitions.is_null(at) || partitions.value(at) < 0 {
                    return Err(format!("topic {name:?}: not a number of partitions"));
                }
                let count = partitions.value(at);
                let before = *counts.entry(name).or_insert(count);
                if before != count {
                    let reason = format!("has {before} partitions in one row, {count} in another");
                    return Err(format!("topic {name:?}: {reason}"));
                }
                builder.add_topic(name, count as u32);
            }
        }
        Ok(())
    }

    fn add_known<'a>(&'a self, name: &'a str, builder: &mut GroupBuilder<'a>) {
        if builder.existing_topic(name).is_some() {
            return;
        }
        if let Some(topic) = self.topics.get(name) {
            let id = builder.add_topic(name, topic.partitions);
            if let Some(racks) = &topic.racks {
                let racks: Vec<Vec<&str>> =
                    racks.iter().map(|racks| racks.iter().map(String::as_str).collect()).collect();
                builder.set_racks(id, racks.iter().map(Vec::as_slice));
            }
        }
    }

    fn add_member<'a>(
        &self,
        rows: &Rows<'a>,
        row: usize,
        subscription: u32,
        builder: &mut GroupBuilder<'a>,
    ) -> Result<()> {
        let user_data =
            rows.user_data.filter(|data| data.is_valid(row)).map(|data| data.value(row));
        let generation = rows.generation.filter(|column| column.is_valid(row));
        let generation = generation.map(|column| column.value(row)).filter(|&number| number >= 0);
        let owned = match &rows.owned {
            Some(owned) if self.strategy.knows_the_past() => owned.of(row)?,
            _ => Vec::new(),
        };
        // What the Java class would have written for these, in its order.
        let sticky = match self.strategy {
            Strategy::Sticky if user_data.is_some() => StickyUserData::decode(user_data),
            Strategy::Sticky => StickyUserData::of(&owned, generation),
            _ => StickyUserData::default(),
        };
        let member = NewMember {
            id: rows.member_id.value(row),
            instance_id: text(rows.instance_id, row),
            rack_id: text(rows.rack_id, row),
            generation,
            ..NewMember::default()
        };
        let strategy = self.strategy;
        add_with_sticky_claims(builder, strategy, member, &sticky, user_data, subscription);
        if self.strategy != Strategy::Sticky {
            for (topic, number) in owned {
                if let Some(topic) = builder.existing_topic(topic) {
                    builder.add_claim(topic, number);
                }
            }
        }
        Ok(())
    }
}

fn text(column: Option<&StringArray>, row: usize) -> Option<&str> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

/// The columns of a batch; those that may be absent are None then.
struct Rows<'a> {
    group_id: &'a StringArray,
    member_id: &'a StringArray,
    topics: Topics<'a>,
    owned: Option<Owned<'a>>,
    generation: Option<&'a Int32Array>,
    rack_id: Option<&'a StringArray>,
    instance_id: Option<&'a StringArray>,
    user_data: Option<&'a BinaryArray>,
}

impl<'a> Rows<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self> {
        let id = |name: &str| {
            let column = strings(batch, name)?.ok_or_else(|| format!("has no column {name}"))?;
            match column.null_count() {
                0 => Ok(column),
                _ => Err(format!("column {name} has a NULL")),
            }
        };
        let topics = batch.column_by_name("topics").ok_or("has no column topics")?;
        Ok(Rows {
            group_id: id("group_id")?,
            member_id: id("member_id")?,
            topics: Topics::of(topics)
                .ok_or("column topics is neither list<string> nor map<string, int32>")?,
            owned: typed(
                batch,
                "owned_partitions",
                "list<struct<topic, partition>>",
                Owned::in_column,
            )?,
            generation: typed(batch, "generation_id", "int32", |column| {
                column.as_primitive_opt::<Int32Type>()
            })?,
            rack_id: strings(batch, "rack_id")?,
            instance_id: strings(batch, "group_instance_id")?,
            user_data: typed(batch, "user_data", "binary", |column| column.as_binary_opt())?,
        })
    }
}

fn strings<'a>(batch: &'a RecordBatch, name: &str) -> Result<Option<&'a StringArray>> {
    typed(batch, name, "string", |column| column.as_string_opt())
}

fn typed<'a, T>(
    batch: &'a RecordBatch,
    name: &str,
    wanted: &str,
    cast: impl Fn(&'a ArrayRef) -> Option<T>,
) -> Result<Option<T>> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    let typed = cast(column);
    match typed {
        Some(_) => Ok(typed),
        None => Err(format!("column {name} is {}, not {wanted}", column.data_type())),
    }
}

/// What members subscribe to: names, or names with the number of partitions of each.
struct Topics<'a> {
    lists: &'a ArrayRef,
    offsets: &'a OffsetBuffer<i32>,
    names: &'a StringArray,
    counts: Option<&'a Int32Array>,
}

impl<'a> Topics<'a> {
    fn of(lists: &'a ArrayRef) -> Option<Self> {
        if let Some(list) = lists.as_list_opt::<i32>() {
            let names = list.values().as_string_opt()?;
            return Some(Topics { lists, offsets: list.offsets(), names, counts: None });
        }
        let map = lists.as_map_opt()?;
        let counts = Some(map.values().as_primitive_opt::<Int32Type>()?);
        let names = map.keys().as_string_opt()?;
        Some(Topics { lists, offsets: map.offsets(), names, counts })
    }

    fn row(&self, row: usize) -> Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// Whether two rows say the same: the members of a group mostly do.
    fn are_equal(&self, left: usize, right: usize) -> bool {
        let (left, right) = (self.row(left), self.row(right));
        left.len() == right.len()
            && left.zip(right).all(|(left, right)| {
                self.names.value(left) == self.names.value(right)
                    && self.counts.is_none_or(|counts| counts.value(left) == counts.value(right))
            })
    }
}

/// What members held before.
struct Owned<'a> {
    lists: &'a ListArray,
    topics: &'a StringArray,
    numbers: &'a Int32Array,
}

impl<'a> Owned<'a> {
    fn in_column(column: &'a ArrayRef) -> Option<Self> {
        let lists = column.as_list_opt::<i32>()?;
        let structs = lists.values().as_struct_opt()?;
        Some(Owned {
            lists,
            topics: structs.column_by_name("topic")?.as_string_opt()?,
            numbers: structs.column_by_name("partition")?.as_primitive_opt::<Int32Type>()?,
        })
    }

    fn of(&self, row: usize) -> Result<Vec<(&'a str, i32)>> {
        if self.lists.is_null(row) {
            return Ok(Vec::new());
        }
        let offsets = self.lists.offsets();
        let pairs = (offsets[row] as usize..offsets[row + 1] as usize).map(|at| {
            let inside = self.lists.values().is_valid(at);
            match inside && self.topics.is_valid(at) && self.numbers.is_valid(at) {
                true => Ok((self.topics.value(at), self.numbers.value(at))),
                false => Err("column owned_partitions has a NULL in it".into()),
            }
        });
        pairs.collect()
    }
}

/// The lists of partitions that were assigned, as the columns that they become.
struct Lists {
    topics: StringBuilder,
    name_bytes: usize,
    numbers: Vec<i32>,
    ends: Vec<i32>,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { topics: StringBuilder::new(), name_bytes: 0, numbers: Vec::new(), ends: vec![0] }
    }
}

impl Lists {
    fn add(&mut self, topic: &str, number: i32) -> Result<()> {
        self.name_bytes += topic.len();
        if self.name_bytes > MAX_NAME_BYTES {
            return Err("the names of what it is assigned take more than 2 GiB".into());
        }
        self.topics.append_value(topic);
        self.numbers.push(number);
        Ok(())
    }

    fn finish(
        mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        schema: &SchemaRef,
    ) -> RecordBatch {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(self.topics.finish()), Arc::new(Int32Array::from(self.numbers))];
        let partitions = StructArray::new(partition_fields(), columns, None);
        let ends = OffsetBuffer::new(self.ends.into());
        let lists = ListArray::new(element(), ends, Arc::new(partitions), None);
        let id = |name| {
            let column = batch.column_by_name(name).expect("read before");
            column.slice(rows.start, rows.len())
        };
        let columns = vec![id("group_id"), id("member_id"), Arc::new(lists) as ArrayRef];
        RecordBatch::try_new(schema.clone(), columns).expect("columns of the schema")
    }
}

fn partition_fields() -> Fields {
    Fields::from(vec![
        Field::new("topic", DataType::Utf8, false),
        Field::new("partition", DataType::Int32, false),
    ])
}

fn element() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Struct(partition_fields()), true))
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("group_id", DataType::Utf8, false),
        Field::new("member_id", DataType::Utf8, false),
        Field::new("partitions", DataType::List(element()), false),
    ]))
}
