// Kafka's own assignor classes behind a pipe. Without arguments: one JSON group a line comes in,
// its lists or the class of the exception go out. With the numbers of a generated group: how long
// the class takes, call after call in one JVM, and a checksum of what it returned.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.TopicPartition;

public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LEAST_CALLS = 3;
    private static final PrintStream OUT =
        new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws IOException {
        if (arguments.length > 0) {
            measure(arguments);
            return;
        }
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            OUT.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static Map<String, Object> answer(JsonNode request) {
        try {
            Strategy strategy = Strategy.of(request.get("strategy").asText(), group(request));
            Map<String, Object> lists = new LinkedHashMap<>();
            strategy.lists(strategy.run()).forEach((member, partitions) -> {
                List<List<Object>> list = new ArrayList<>();
                partitions.forEach(p -> list.add(List.of(p.topic(), p.partition())));
                lists.put(member, list);
            });
            return Map.of("lists", lists);
        } catch (IllegalStateException | NullPointerException error) {
            return Map.of("error", error.getClass().getSimpleName());
        }
    }

    private static Group group(JsonNode request) {
        Map<String, List<List<String>>> topics = new LinkedHashMap<>();
        request.get("topics").properties().forEach(topic -> {
            List<List<String>> partitions = new ArrayList<>();
            topic.getValue().forEach(racks -> partitions.add(texts(racks)));
            topics.put(topic.getKey(), partitions);
        });
        List<Group.Member> members = new ArrayList<>();
        for (JsonNode member : request.get("members")) {
            List<TopicPartition> owned = new ArrayList<>();
            member.get("owned").forEach(pair ->
                owned.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
            String userData = member.get("user_data").textValue();
            members.add(new Group.Member(
                member.get("id").asText(), member.get("instance_id").textValue(),
                member.get("rack_id").textValue(), member.get("generation_id").asInt(),
                texts(member.get("topics")), owned,
                userData == null ? null : Base64.getDecoder().decode(userData)));
        }
        return new Group(topics, members);
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(text -> texts.add(text.asText()));
        return texts;
    }

    /**
     * STRATEGY MEMBERS PARTITIONS TOPICS same|but-one|random full|one-more SECONDS: for so long, but
     * three times at least. A line with its milliseconds after each call.
     */
    private static void measure(String[] arguments) {
        String name = arguments[0];
        int members = Integer.parseInt(arguments[1]);
        int partitions = Integer.parseInt(arguments[2]);
        int topics = Integer.parseInt(arguments[3]);
        String kind = arguments[4];
        List<List<TopicPartition>> owned = null;
        if (arguments[5].equals("one-more")) {
            Group before = Group.generated(members - 1, partitions, topics, kind, null);
            Strategy strategy = Strategy.of(name, before);
            Map<String, List<TopicPartition>> lists = strategy.lists(strategy.run());
            owned = new ArrayList<>();
            for (Group.Member member : before.members()) {
                owned.add(lists.getOrDefault(member.id(), List.of()));
            }
        }
        Group group = Group.generated(members, partitions, topics, kind, owned);
        Strategy strategy = Strategy.of(name, group);
        OUT.println("ready");
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[6]) * 1e9);
        Object result;
        int calls = 0;
        do {
            long start = System.nanoTime();
            result = strategy.run();
            OUT.println((System.nanoTime() - start) / 1e6);
            calls++;
        } while (calls < LEAST_CALLS || System.nanoTime() < end);
        OUT.printf("checksum %016x%n", group.checksum(strategy.lists(result)));
    }
}
