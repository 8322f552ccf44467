//! The columns of a batch of requests, found by name and checked once: then each row is read where
//! it lies. Nothing is copied.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryViewType, ByteViewType, Int16Type, Int32Type, Int64Type,
    LargeBinaryType, LargeUtf8Type, StringViewType,
};
use arrow_array::types::{BinaryType, ByteArrayType, Utf8Type};
use arrow_array::{
    Array, ArrayRef, GenericByteArray, GenericByteViewArray, PrimitiveArray, RecordBatch,
};
use arrow_schema::DataType;
use kcoord_rows::{Asked, Row, Source};

/// A column that cannot be read.
pub struct ColumnError {
    pub column: &'static str,
    pub reason: String,
}

type Result<T> = std::result::Result<T, ColumnError>;

/// See `pykcoord.arrow.REQUEST`.
pub struct Columns {
    rows: usize,
    seq: PrimitiveArray<Int64Type>,
    ts: PrimitiveArray<Int64Type>,
    group_id: Text,
    member_id: Text,
    api_key: PrimitiveArray<Int16Type>,
    api_version: PrimitiveArray<Int16Type>,
    generation: PrimitiveArray<Int32Type>,
    client_id: Text,
    client_host: Text,
    payload: Bytes,
}

impl Columns {
    pub fn of(batch: &RecordBatch) -> Result<Columns> {
        Ok(Columns {
            rows: batch.num_rows(),
            seq: number(batch, "seq", false)?,
            ts: number(batch, "ts", false)?,
            group_id: text(batch, "group_id", false)?,
            member_id: text(batch, "member_id", true)?,
            api_key: number(batch, "api_key", false)?,
            api_version: number(batch, "api_version", false)?,
            generation: number(batch, "generation", true)?,
            client_id: text(batch, "client_id", true)?,
            client_host: text(batch, "client_host", true)?,
            payload: bytes(batch, "payload", true)?,
        })
    }
}

impl Source for Columns {
    fn rows(&self) -> usize {
        self.rows
    }

    // Always: each caller reads a few of the columns, and the others cost nothing then.
    #[inline(always)]
    fn row(&self, at: usize) -> Row<'_> {
        Row {
            asked: self.asked(at),
            ts: self.ts.value(at),
            client_id: self.client_id.optional(at),
            client_host: self.client_host.optional(at),
            payload: self.payload.optional(at),
        }
    }

    #[inline]
    fn ts(&self, at: usize) -> i64 {
        self.ts.value(at)
    }

    fn seq(&self, at: usize) -> i64 {
        self.seq.value(at)
    }

    #[inline]
    fn group_id(&self, at: usize) -> &str {
        self.group_id.value(at)
    }

    #[inline(always)]
    fn asked(&self, at: usize) -> Asked<'_> {
        Asked {
            seq: self.seq.value(at),
            group_id: self.group_id.value(at),
            member_id: self.member_id.optional(at),
            api_key: self.api_key.value(at),
            api_version: self.api_version.value(at),
            generation: self.generation.is_valid(at).then(|| self.generation.value(at)),
        }
    }
}

/// The three layouts that Arrow has for one thing.
enum Either<Small: ByteArrayType, Large: ByteArrayType, View: ByteViewType + ?Sized> {
    Small(GenericByteArray<Small>),
    Large(GenericByteArray<Large>),
    View(GenericByteViewArray<View>),
}

type Text = Either<Utf8Type, LargeUtf8Type, StringViewType>;
type Bytes = Either<BinaryType, LargeBinaryType, BinaryViewType>;

impl<Small, Large, View> Either<Small, Large, View>
where
    Small: ByteArrayType,
    Large: ByteArrayType<Native = Small::Native>,
    View: ByteViewType<Native = Small::Native> + ?Sized,
{
    #[inline]
    fn value(&self, at: usize) -> &Small::Native {
        match self {
            Either::Small(array) => array.value(at),
            Either::Large(array) => array.value(at),
            Either::View(array) => array.value(at),
        }
    }

    #[inline]
    fn optional(&self, at: usize) -> Option<&Small::Native> {
        let valid = match self {
            Either::Small(array) => array.is_valid(at),
            Either::Large(array) => array.is_valid(at),
            Either::View(array) => array.is_valid(at),
        };
        valid.then(|| self.value(at))
    }
}

fn number<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    column: &'static str,
    nullable: bool,
) -> Result<PrimitiveArray<T>> {
    let array = find(batch, column, nullable)?;
    match array.as_primitive_opt::<T>() {
        Some(array) => Ok(array.clone()),
        None => Err(wrong_type(column, &array, &T::DATA_TYPE)),
    }
}

fn text(batch: &RecordBatch, column: &'static str, nullable: bool) -> Result<Text> {
    let array = find(batch, column, nullable)?;
    match array.data_type() {
        DataType::Utf8 => Ok(Either::Small(array.as_string().clone())),
        DataType::LargeUtf8 => Ok(Either::Large(array.as_string().clone())),
        DataType::Utf8View => Ok(Either::View(array.as_string_view().clone())),
        _ => Err(wrong_type(column, &array, &DataType::Utf8)),
    }
}

fn bytes(batch: &RecordBatch, column: &'static str, nullable: bool) -> Result<Bytes> {
    let array = find(batch, column, nullable)?;
    match array.data_type() {
        DataType::Binary => Ok(Either::Small(array.as_binary().clone())),
        DataType::LargeBinary => Ok(Either::Large(array.as_binary().clone())),
        DataType::BinaryView => Ok(Either::View(array.as_binary_view().clone())),
        _ => Err(wrong_type(column, &array, &DataType::Binary)),
    }
}

/// The column of that name. What came over the C interface was believed so far: here offsets and
/// UTF-8 are checked, since everything behind relies on them.
fn find(batch: &RecordBatch, column: &'static str, nullable: bool) -> Result<ArrayRef> {
    let Some(array) = batch.column_by_name(column) else {
        let names: Vec<&str> =
            batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        let reason = format!("is missing: the batch has {}", names.join(", "));
        return Err(ColumnError { column, reason });
    };
    let broken = |error| ColumnError { column, reason: format!("is broken: {error}") };
    array.to_data().validate_full().map_err(broken)?;
    if !nullable && array.null_count() > 0 {
        let row = (0..array.len()).find(|at| array.is_null(*at)).unwrap_or_default();
        return Err(ColumnError { column, reason: format!("is NULL in row {row}") });
    }
    Ok(array.clone())
}

fn wrong_type(column: &'static str, array: &ArrayRef, wanted: &DataType) -> ColumnError {
    let found = array.data_type();
    let reason = format!("is {}, not {}", plain(found), plain(wanted));
    ColumnError { column, reason }
}

/// As pyarrow prints it.
fn plain(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "string".to_owned(),
        other => format!("{other}").to_lowercase(),
    }
}
