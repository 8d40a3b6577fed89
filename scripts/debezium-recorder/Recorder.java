// Runs Debezium's embedded engine over a PostgreSQL and writes what it would have put on Kafka: one line a record,
// {"topic", "key", "value"} with key and value as text or null.
//
// java -cp 'JARS/*' Recorder.java HOST PORT FOLDER NAME
//
// NAME is one of the sets of settings below. Writes FOLDER/NAME.jsonl, and FOLDER/NAME.ready once the snapshot has
// been taken. Ends when it has seen a row of public.done.

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;

public class Recorder {
    static final Map<String, Map<String, String>> ENGINES = Map.of(
        "debezium", Map.of(
            "value.converter.schemas.enable", "true", "key.converter.schemas.enable", "true",
            "decimal.handling.mode", "precise"),
        "debezium_plain", Map.of(
            "value.converter.schemas.enable", "false", "key.converter.schemas.enable", "false",
            "decimal.handling.mode", "string", "provide.transaction.metadata", "true"),
        "debezium_unwrapped", Map.of(
            "value.converter.schemas.enable", "false", "key.converter.schemas.enable", "false",
            "decimal.handling.mode", "precise",
            "transforms", "unwrap", "transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode", "rewrite",
            "transforms.unwrap.add.fields", "op,table,source.lsn,source.sequence,source.connector,source.snapshot"));

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[2]);
        String name = arguments[3];
        CountDownLatch running = new CountDownLatch(1);
        Properties settings = new Properties();
        settings.setProperty("name", name);
        settings.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        settings.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        settings.setProperty("offset.flush.interval.ms", "100");
        settings.setProperty("database.hostname", arguments[0]);
        settings.setProperty("database.port", arguments[1]);
        settings.setProperty("database.user", "recorder");
        settings.setProperty("database.password", "recorder");
        settings.setProperty("database.dbname", "shop");
        settings.setProperty("topic.prefix", "shop");
        settings.setProperty("plugin.name", "pgoutput");
        settings.setProperty("slot.name", name);
        settings.setProperty("publication.name", name);
        settings.setProperty("publication.autocreate.mode", "filtered");
        settings.setProperty("table.include.list", "public.order_lines,public.odds,public.done");
        settings.setProperty("skipped.operations", "none");
        settings.setProperty("heartbeat.interval.ms", "2500");
        ENGINES.get(name).forEach(settings::setProperty);
        record(name, settings, folder, running);
        running.await();
        System.exit(0);
    }

    static void record(String name, Properties settings, Path folder, CountDownLatch running) throws Exception {
        PrintWriter out = new PrintWriter(
            Files.newBufferedWriter(folder.resolve(name + ".jsonl"), StandardCharsets.UTF_8), true);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(settings)
            .notifying(event -> {
                if (event.destination().endsWith(".done")) {
                    running.countDown();
                    return;
                }
                out.println("{\"topic\":" + quote(event.destination()) + ",\"key\":" + quote(event.key())
                    + ",\"value\":" + quote(event.value()) + "}");
                if (event.destination().contains("heartbeat")) {
                    ready(folder.resolve(name + ".ready"));
                }
            })
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println(name + ": " + message + " " + error);
                    System.exit(1);
                }
            })
            .build();
        Executors.newSingleThreadExecutor().execute(engine);
    }

    static void ready(Path file) {
        try {
            Files.writeString(file, "");
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    static String quote(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
