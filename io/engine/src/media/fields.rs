//! Media formats as lists of fields, so that one field can be changed and everything else stays as it was.

use crate::codec::{Malformed, Put, Take};
use crate::frame::ObjectKind;

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// One byte.
    Byte(u8),
    /// Eight bytes.
    Long(u64),
    /// Sixteen bytes.
    Wide(u128),
    /// A number of variable length; signed ones as they are folded.
    Var(u64),
    /// A length and bytes.
    Blob(Vec<u8>),
}

impl Field {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Field::Byte(value) => out.u8(*value),
            Field::Long(value) => out.u64(*value),
            Field::Wide(value) => out.u128(*value),
            Field::Var(value) => out.var(*value),
            Field::Blob(bytes) => out.blob(bytes),
        }
    }

    /// Its value, if it is a number.
    pub fn number(&self) -> Option<u64> {
        match self {
            Field::Byte(value) => Some(u64::from(*value)),
            Field::Long(value) | Field::Var(value) => Some(*value),
            Field::Wide(value) => Some(*value as u64),
            Field::Blob(_) => None,
        }
    }

    /// Gives it another value; a blob another length.
    pub fn set(&mut self, number: u64) {
        match self {
            Field::Byte(value) => *value = number as u8,
            Field::Long(value) | Field::Var(value) => *value = number,
            Field::Wide(value) => *value = u128::from(number),
            Field::Blob(bytes) => bytes.resize((number % 64) as usize, 1),
        }
    }
}

/// Takes fields and notes them.
struct Fields<'a> {
    take: Take<'a>,
    noted: Vec<Field>,
}

impl Fields<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let value = self.take.u8()?;
        self.noted.push(Field::Byte(value));
        Ok(value)
    }

    fn long(&mut self) -> Result<(), Malformed> {
        let value = self.take.u64()?;
        self.noted.push(Field::Long(value));
        Ok(())
    }

    fn wide(&mut self) -> Result<(), Malformed> {
        let value = self.take.u128()?;
        self.noted.push(Field::Wide(value));
        Ok(())
    }

    fn var(&mut self) -> Result<u64, Malformed> {
        let value = self.take.var()?;
        self.noted.push(Field::Var(value));
        Ok(value)
    }

    fn vars(&mut self, count: usize) -> Result<(), Malformed> {
        (0..count).try_for_each(|_| self.var().map(drop))
    }

    fn blob(&mut self) -> Result<(), Malformed> {
        let bytes = self.take.blob()?.to_vec();
        self.noted.push(Field::Blob(bytes));
        Ok(())
    }

    fn location(&mut self) -> Result<(), Malformed> {
        match self.var()? {
            0 => Ok(()),
            _ => self.vars(2),
        }
    }

    fn each(&mut self, mut one: impl FnMut(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        let count = self.var()?;
        (0..count).try_for_each(|_| one(self))
    }

    fn root(&mut self) -> Result<(), Malformed> {
        self.vars(3)?;
        self.each(|fields| fields.vars(2))?;
        self.each(Self::location)?;
        for _ in 0..2 {
            self.each(|fields| {
                fields.var()?;
                fields.location()
            })?;
        }
        self.each(|fields| fields.var().map(drop))?;
        self.each(|fields| {
            fields.var()?;
            fields.byte()?;
            fields.var().map(drop)
        })?;
        self.each(|fields| fields.vars(5))?;
        if self.take.is_empty() {
            return Ok(());
        }
        self.each(|fields| {
            fields.vars(4)?;
            fields.byte().map(drop)
        })?;
        if self.take.is_empty() {
            return Ok(());
        }
        self.blob()?;
        if self.take.is_empty() {
            return Ok(());
        }
        self.var()?;
        self.byte()?;
        self.vars(3)?;
        self.each(|fields| {
            fields.var()?;
            fields.location()
        })
    }

    fn index(&mut self) -> Result<(), Malformed> {
        while !self.take.is_empty() {
            self.long()?;
        }
        Ok(())
    }

    fn catalog(&mut self) -> Result<(), Malformed> {
        self.var()?;
        self.each(|fields| {
            fields.var()?;
            fields.wide()?;
            fields.vars(2)?;
            fields.byte()?;
            fields.long()?;
            fields.byte()?;
            fields.blob()?;
            let bits = fields.byte()?;
            fields.vars(2)?;
            if bits & 4 != 0 {
                fields.wide()?;
                fields.wide()?;
            }
            Ok(())
        })?;
        self.each(|fields| {
            fields.blob()?;
            fields.blob()
        })
    }

    fn chunk(&mut self) -> Result<(), Malformed> {
        while !self.take.is_empty() {
            self.byte()?;
            self.location()?;
            self.vars(3)?;
            self.byte()?;
        }
        Ok(())
    }

    fn table(&mut self) -> Result<(), Malformed> {
        while !self.take.is_empty() {
            self.byte()?;
            self.vars(3)?;
            let stored = self.byte()?;
            let bits = self.byte()?;
            let cells = if bits & 0x40 != 0 { stored.count_ones() as usize } else { 0 };
            self.vars(cells + usize::from(bits & 0x3f))?;
        }
        Ok(())
    }

    fn node(&mut self) -> Result<(), Malformed> {
        while !self.take.is_empty() {
            let head = self.var()?;
            if head & 3 >= 2 {
                self.var()?;
            }
        }
        Ok(())
    }

    fn records(&mut self) -> Result<(), Malformed> {
        while !self.take.is_empty() {
            self.each(|fields| match fields.byte()? {
                1 | 2 | 4 => fields.vars(5),
                3 => fields.vars(4),
                kind @ (5 | 6) => {
                    fields.vars(kind as usize - 1)?;
                    fields.wide()
                }
                9 => {
                    fields.var()?;
                    fields.blob()
                }
                10 => {
                    fields.var()?;
                    fields.blob()?;
                    fields.blob()
                }
                8 => fields.var().map(drop),
                _ => fields.vars(2),
            })?;
        }
        Ok(())
    }
}

/// The fields of an object's payload; none of a frame, which has data.
pub fn of_object(kind: ObjectKind, payload: &[u8]) -> Result<Vec<Field>, Malformed> {
    let mut fields = Fields { take: Take::new(payload, "object"), noted: Vec::new() };
    match kind {
        ObjectKind::Frame => {}
        ObjectKind::Map => fields.node()?,
        ObjectKind::Table => fields.table()?,
        ObjectKind::MapIndex | ObjectKind::TableIndex => fields.chunk()?,
        ObjectKind::Catalog => fields.catalog()?,
        ObjectKind::Root => fields.root()?,
        ObjectKind::Index => fields.index()?,
    }
    Ok(fields.noted)
}

/// The fields of the encoded records of a journal batch.
pub fn of_records(records: &[u8]) -> Result<Vec<Field>, Malformed> {
    let mut fields = Fields { take: Take::new(records, "journal batch"), noted: Vec::new() };
    fields.records()?;
    Ok(fields.noted)
}

/// The fields of a superblock's payload after version and key.
pub fn of_superblock(payload: &[u8]) -> Result<Vec<Field>, Malformed> {
    let mut fields = Fields { take: Take::new(payload, "superblock"), noted: Vec::new() };
    fields.long()?;
    fields.each(Fields::location)?;
    Ok(fields.noted)
}

/// Fields as they are written.
pub fn bytes_of(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|field| field.put(&mut out));
    out
}
