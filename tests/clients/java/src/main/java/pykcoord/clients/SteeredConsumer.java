// One consumer on a thread of its own: polls, and does what it is asked between two polls.
package pykcoord.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class SteeredConsumer extends Thread implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
    private static final Map<String, String> ASSIGNOR_CLASSES = Map.of(
        "range", ASSIGNORS + "RangeAssignor",
        "roundrobin", ASSIGNORS + "RoundRobinAssignor",
        "sticky", ASSIGNORS + "StickyAssignor",
        "cooperative-sticky", ASSIGNORS + "CooperativeStickyAssignor");

    final LinkedBlockingQueue<JsonNode> requests = new LinkedBlockingQueue<>();
    private final String name;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Set<TopicPartition> assignment = new HashSet<>();
    private final Map<TopicPartition, Long> starts = new HashMap<>();
    // The offset after the last record, how many came twice, and how many were left out.
    private final Map<TopicPartition, long[]> counts = new HashMap<>();

    SteeredConsumer(JsonNode settings) {
        setDaemon(true);
        name = settings.get("consumer").asText();
        consumer = new KafkaConsumer<>(
            properties(settings), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (settings.get("pattern").isNull()) {
            Set<String> topics = new HashSet<>();
            settings.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        } else if (isOfConsumerProtocol(settings)) {
            consumer.subscribe(new SubscriptionPattern(settings.get("pattern").asText()), this);
        } else {
            consumer.subscribe(Pattern.compile(settings.get("pattern").asText()), this);
        }
    }

    @Override
    public void run() {
        boolean failed = false;
        while (true) {
            if (!failed) {
                try {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                        starts.putIfAbsent(
                            new TopicPartition(record.topic(), record.partition()), record.offset());
                        given(record);
                    }
                } catch (Exception error) {
                    failed = true;
                    Lines.failed(name, error);
                }
            }
            while (failed || !requests.isEmpty()) {
                JsonNode request;
                try {
                    request = requests.take();
                } catch (InterruptedException interrupted) {
                    return;
                }
                Lines.reply(request, () -> perform(request));
                if (request.get("op").asText().equals("close")) {
                    return;
                }
            }
        }
    }

    private void given(ConsumerRecord<byte[], byte[]> record) {
        long[] of = counts.computeIfAbsent(
            new TopicPartition(record.topic(), record.partition()), partition -> new long[3]);
        if (record.offset() < of[0]) {
            of[1]++;
        } else {
            of[2] += record.offset() - of[0];
            of[0] = record.offset() + 1;
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        assignment.addAll(partitions);
        Lines.event("assigned", name, partitions, assignment);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        assignment.removeAll(partitions);
        Lines.event("revoked", name, partitions, assignment);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        assignment.removeAll(partitions);
        Lines.event("lost", name, partitions, assignment);
    }

    private JsonNode perform(JsonNode request) {
        switch (request.get("op").asText()) {
            case "commit":
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (JsonNode row : request.get("offsets")) {
                    offsets.put(partition(row), new OffsetAndMetadata(row.get(2).asLong()));
                }
                consumer.commitSync(offsets);
                return null;
            case "committed":
                return rows(request, partition -> {
                    OffsetAndMetadata offset = consumer.committed(Set.of(partition)).get(partition);
                    return offset == null ? null : offset.offset();
                });
            case "started":
                return rows(request,
                    partition -> starts.computeIfAbsent(partition, consumer::position));
            case "read":
                ArrayNode read = Lines.MAPPER.createArrayNode();
                counts.forEach((row, of) -> read.addArray().add(row.topic()).add(row.partition())
                    .add(of[0]).add(of[1]).add(of[2]));
                return read;
            case "close":
                consumer.close();
                return null;
            default:
                throw new IllegalArgumentException("unknown op: " + request);
        }
    }

    private static JsonNode rows(JsonNode request, Function<TopicPartition, Long> offset) {
        ArrayNode rows = Lines.MAPPER.createArrayNode();
        for (JsonNode row : request.get("partitions")) {
            rows.addArray().add(row.get(0)).add(row.get(1)).add(offset.apply(partition(row)));
        }
        return rows;
    }

    private static TopicPartition partition(JsonNode row) {
        return new TopicPartition(row.get(0).asText(), row.get(1).asInt());
    }

    private static boolean isOfConsumerProtocol(JsonNode settings) {
        return settings.get("protocol").asText().equals("consumer");
    }

    private static Properties properties(JsonNode settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap").asText());
        properties.put("client.id", settings.get("consumer").asText());
        properties.put("group.id", settings.get("group").asText());
        if (isOfConsumerProtocol(settings)) {
            properties.put("group.protocol", "consumer");
            if (!settings.get("server_assignor").isNull()) {
                properties.put("group.remote.assignor", settings.get("server_assignor").asText());
            }
        } else {
            properties.put("group.protocol", "classic");
            properties.put("partition.assignment.strategy",
                List.of(ASSIGNOR_CLASSES.get(settings.get("assignor").asText())));
            properties.put("session.timeout.ms", settings.get("session_timeout_ms").asText());
            properties.put("heartbeat.interval.ms", settings.get("heartbeat_interval_ms").asText());
        }
        properties.put("auto.offset.reset", settings.get("reset").asText());
        properties.put("max.poll.interval.ms", settings.get("rebalance_timeout_ms").asText());
        properties.put("metadata.max.age.ms", settings.get("metadata_max_age_ms").asText());
        properties.put("enable.auto.commit", "false");
        properties.put("allow.auto.create.topics", "false");
        properties.put("reconnect.backoff.max.ms", "500");
        properties.put("retry.backoff.max.ms", "500");
        if (!settings.get("instance").isNull()) {
            properties.put("group.instance.id", settings.get("instance").asText());
        }
        return properties;
    }
}
