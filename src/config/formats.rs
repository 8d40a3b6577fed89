//! From a topic's settings to its decoder, with every combination that could not be read rightly refused.

use std::sync::Arc;

use super::ConfigError;
use super::topic::{ColumnSetting, DeletesSetting, EncodingSetting, Format, TopicSection, WatermarkMode};
use crate::pure::formats::canal::CanalDecoder;
use crate::pure::formats::connect::Plans;
use crate::pure::formats::debezium::DebeziumDecoder;
use crate::pure::formats::debezium_unwrapped::{Deletes, UnwrappedDecoder};
use crate::pure::formats::field::{Encoding, Field};
use crate::pure::formats::maxwell::MaxwellDecoder;
use crate::pure::formats::native::{NativeDecoder, Order};
use crate::pure::formats::time::{Unit, Zone};
use crate::pure::formats::unavailable::{UNAVAILABLE, Unavailable};
use crate::pure::formats::upsert::UpsertDecoder;
use crate::pure::formats::{Decoder, SourceTable};
use crate::pure::schema::{Column, ColumnType, Table};

/// The decoder of a topic.
pub(super) fn decoder(
    section: &TopicSection,
    table: &Arc<Table>,
    order: Order,
    place: &str,
) -> Result<Decoder, ConfigError> {
    let topic = TopicFormat { section, table, place };
    topic.check()?;
    let fields = topic.fields()?;
    let table = table.clone();
    Ok(match section.format {
        Format::Native => Decoder::Native(topic.native(order)),
        Format::Debezium => Decoder::Debezium(DebeziumDecoder::new(
            table,
            order,
            topic.source_table()?,
            topic.plans(fields)?,
            topic.unavailable(),
        )),
        Format::DebeziumUnwrapped => {
            let source = section.source_table.as_deref().map(SourceTable::named);
            let plans = topic.plans(fields)?;
            let (deletes, unavailable) = (topic.deletes()?, topic.unavailable());
            let decoder = UnwrappedDecoder::new(table, order, source, plans, deletes, unavailable);
            Decoder::DebeziumUnwrapped(decoder)
        }
        Format::Upsert => Decoder::Upsert(UpsertDecoder::new(table, topic.plans(fields)?)),
        Format::Maxwell => Decoder::Maxwell(MaxwellDecoder::new(table, order, topic.source_table()?, fields)),
        Format::Canal => Decoder::Canal(CanalDecoder::new(table, topic.source_table()?, fields)),
    })
}

struct TopicFormat<'a> {
    section: &'a TopicSection,
    table: &'a Arc<Table>,
    place: &'a str,
}

impl TopicFormat<'_> {
    fn wrong(&self, setting: &str, message: impl Into<String>, remedy: impl Into<String>) -> ConfigError {
        ConfigError::new(format!("{}: {setting}", self.place), message, remedy)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let section = self.section;
        self.check_watermark()?;
        let name = section.format.name();
        let only = |given: bool, setting: &str, allowed: &[Format]| {
            if !given || allowed.contains(&section.format) {
                return Ok(());
            }
            Err(self.wrong(setting, format!("format {name} has no such setting"), "leave it out"))
        };
        use Format::{Canal, Debezium, DebeziumUnwrapped, Maxwell, Upsert};
        let named = [Debezium, DebeziumUnwrapped, Maxwell, Canal];
        only(section.source_table.is_some(), "source_table", &named)?;
        only(
            section.time_zone.is_some(),
            "time_zone",
            &[Debezium, DebeziumUnwrapped, Maxwell, Canal, Upsert],
        )?;
        only(section.unavailable_value.is_some(), "unavailable_value", &[Debezium, DebeziumUnwrapped])?;
        only(section.deletes.is_some(), "deletes", &[DebeziumUnwrapped])?;
        for column in section.columns.keys() {
            if self.table.column(column).is_none() {
                let message = format!("table {} has no column {column}", self.table.name);
                return Err(self.wrong("columns", message, "name columns of the table"));
            }
        }
        Ok(())
    }

    /// What the positions of a format can promise.
    fn check_watermark(&self) -> Result<(), ConfigError> {
        let section = self.section;
        let (format, mode) = (section.format.name(), section.watermark);
        match section.format {
            Format::Native => Ok(()),
            Format::Upsert | Format::Canal if mode == WatermarkMode::Offsets => Ok(()),
            Format::Upsert | Format::Canal => Err(self.wrong(
                "watermark",
                format!("messages of format {format} carry no sequence"),
                "set watermark = \"offsets\": the offset orders the events of a key",
            )),
            Format::Debezium | Format::DebeziumUnwrapped | Format::Maxwell => match mode {
                WatermarkMode::Offsets => Ok(()),
                WatermarkMode::Sparse if section.shared_seq => Ok(()),
                WatermarkMode::Sparse => Err(self.wrong(
                    "shared_seq",
                    "rows of one statement, and all rows of a snapshot, share a position of the source",
                    "set shared_seq = true",
                )),
                WatermarkMode::Dense | WatermarkMode::AppendOrdered => Err(self.wrong(
                    "watermark",
                    format!("positions of format {format} have holes, and are sent without waiting"),
                    "set watermark = \"sparse\" with shared_seq = true, or watermark = \"offsets\"",
                )),
            },
        }
    }

    fn source_table(&self) -> Result<SourceTable, ConfigError> {
        let missing = || {
            self.wrong(
                "source_table",
                format!("format {} needs it: a topic may carry several tables", self.section.format.name()),
                "name the table as the messages do, e.g. source_table = \"public.orders\"",
            )
        };
        let name = self.section.source_table.as_deref().ok_or_else(missing)?;
        if name.split('.').any(str::is_empty) {
            let remedy = "write table, schema.table or database.schema.table";
            return Err(self.wrong("source_table", format!("{name:?} names no table"), remedy));
        }
        Ok(SourceTable::named(name))
    }

    fn unavailable(&self) -> Unavailable {
        Unavailable::new(self.section.unavailable_value.as_deref().unwrap_or(UNAVAILABLE))
    }

    fn deletes(&self) -> Result<Deletes, ConfigError> {
        match self.section.deletes {
            Some(DeletesSetting::Rewrite) => Ok(Deletes::Rewrite),
            Some(DeletesSetting::Tombstone) if self.section.watermark == WatermarkMode::Offsets => {
                Ok(Deletes::Tombstone)
            }
            Some(DeletesSetting::Tombstone) => Err(self.wrong(
                "deletes",
                "a null value carries no position of the source",
                "set deletes = \"rewrite\" here and in the transform, or watermark = \"offsets\"",
            )),
            Some(DeletesSetting::Drop) => Err(self.wrong(
                "deletes",
                "a transform that drops deletes leaves rows in the view that are gone",
                "set delete.tombstone.handling.mode=rewrite in the transform, and deletes = \"rewrite\" here",
            )),
            None => Err(self.wrong(
                "deletes",
                "it is missing: the messages do not say how the transform tells deletes",
                "set deletes = \"rewrite\" or \"tombstone\", as the transform's delete.tombstone.handling.mode",
            )),
        }
    }

    fn native(&self, order: Order) -> NativeDecoder {
        let mut decoder = NativeDecoder::new(self.table.clone(), order);
        for (part, &column) in self.table.key.iter().enumerate() {
            let setting = self.section.columns.get(&*self.table.columns[column].name);
            if let Some(header) = setting.and_then(|setting| setting.header.as_deref()) {
                decoder = decoder.with_key_header(part, header);
            }
        }
        decoder
    }

    fn plans(&self, fields: Vec<Field>) -> Result<Plans, ConfigError> {
        let zone = self.zone("time_zone", self.section.time_zone.as_deref())?;
        Ok(Plans::new(self.table.clone(), fields, zone))
    }

    fn fields(&self) -> Result<Vec<Field>, ConfigError> {
        let none = ColumnSetting::default();
        let field = |(index, column): (usize, &Column)| {
            let setting = self.section.columns.get(&*column.name).unwrap_or(&none);
            self.field(column, self.table.is_key(index), setting)
        };
        self.table.columns.iter().enumerate().map(field).collect()
    }

    fn field(&self, column: &Column, is_key: bool, setting: &ColumnSetting) -> Result<Field, ConfigError> {
        let at = |name: &str| format!("columns.{}.{name}", column.name);
        if self.section.format == Format::Native {
            let more = setting.from.is_some() || setting.encoding != EncodingSetting::Plain;
            if more || (setting.header.is_some() && !is_key) {
                return Err(self.wrong(
                    &format!("columns.{}", column.name),
                    "in the native format a column of the primary key may come from a header, and no more",
                    "leave it out, or name a header",
                ));
            }
        } else if setting.header.is_some() {
            let message = format!("format {} reads no headers", self.section.format.name());
            return Err(self.wrong(&at("header"), message, "leave it out"));
        }
        let encoding = self.encoding(column, setting, &at)?;
        if !encoding.fits(column.column_type) {
            return Err(self.wrong(
                &at("as"),
                "the column's type cannot hold it",
                "decimals and truth values make integers, days and times make dates, text makes text",
            ));
        }
        let source = setting.from.as_deref().map_or_else(|| column.name.clone(), Arc::from);
        Ok(Field { source, encoding })
    }

    fn encoding(
        &self,
        column: &Column,
        setting: &ColumnSetting,
        at: &dyn Fn(&str) -> String,
    ) -> Result<Encoding, ConfigError> {
        use EncodingSetting as Setting;
        let within = |name: &str, value: Option<u32>, most: u32| match value {
            Some(value) if value > most => Err(self.wrong(
                &at(name),
                format!("{value} is not allowed"),
                format!("give a number from 0 to {most}"),
            )),
            value => Ok(value),
        };
        let scaled = matches!(setting.encoding, Setting::Decimal | Setting::DecimalBytes);
        if setting.scale.is_some() && !scaled {
            return Err(self.wrong(&at("scale"), "only decimals have one", "add as = \"decimal\""));
        }
        if setting.bytes_scale.is_some() != (setting.encoding == Setting::DecimalBytes) {
            let remedy = "give as = \"decimal_bytes\" and bytes_scale together";
            return Err(self.wrong(&at("bytes_scale"), "decimal_bytes has it, and nothing else", remedy));
        }
        let scale = within("scale", setting.scale, 18)?.unwrap_or(0);
        let bytes_scale = i64::from(within("bytes_scale", setting.bytes_scale, 38)?.unwrap_or(0));
        let zone = || {
            let own = setting.time_zone.as_deref().or(self.section.time_zone.as_deref());
            self.zone(&at("time_zone"), own)
        };
        let ticks = |unit, zone| Encoding::Ticks { unit, zone };
        Ok(match setting.encoding {
            // Canal writes every value as text.
            Setting::Plain
                if self.section.format == Format::Canal && column.column_type == ColumnType::Integer =>
            {
                Encoding::Decimal { scale: 0 }
            }
            Setting::Plain => Encoding::Plain,
            Setting::Text => Encoding::Text,
            Setting::Bool => Encoding::Bool,
            Setting::Decimal => Encoding::Decimal { scale },
            Setting::DecimalBytes => Encoding::DecimalBytes { bytes_scale, scale },
            Setting::Days => Encoding::Days,
            Setting::Seconds => ticks(Unit::Seconds, Some(zone()?)),
            Setting::Millis => ticks(Unit::Millis, Some(zone()?)),
            Setting::Micros => ticks(Unit::Micros, Some(zone()?)),
            Setting::Nanos => ticks(Unit::Nanos, Some(zone()?)),
            Setting::LocalSeconds => ticks(Unit::Seconds, None),
            Setting::LocalMillis => ticks(Unit::Millis, None),
            Setting::LocalMicros => ticks(Unit::Micros, None),
            Setting::LocalNanos => ticks(Unit::Nanos, None),
            Setting::Iso => Encoding::Iso { zone: zone()? },
        })
    }

    fn zone(&self, setting: &str, name: Option<&str>) -> Result<Zone, ConfigError> {
        let name = name.unwrap_or("UTC");
        Zone::named(name).ok_or_else(|| {
            self.wrong(
                setting,
                format!("{name:?} is no time zone"),
                "name one of the time zone database, e.g. \"Europe/Berlin\"",
            )
        })
    }
}
