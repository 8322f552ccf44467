// What the program writes: replies and events, one JSON object a line, from any thread.
package pykcoord.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.concurrent.Callable;
import org.apache.kafka.common.TopicPartition;

final class Lines {
    static final ObjectMapper MAPPER = new ObjectMapper();

    private Lines() {}

    static void reply(JsonNode request, Callable<JsonNode> action) {
        ObjectNode line = MAPPER.createObjectNode().put("id", request.get("id").asInt());
        try {
            line.set("result", action.call());
        } catch (Exception error) {
            line.put("error", error.toString());
        }
        say(line);
    }

    static void event(String kind, String consumer, Collection<TopicPartition> partitions,
                      Collection<TopicPartition> assignment) {
        ObjectNode line = MAPPER.createObjectNode().put("event", kind).put("consumer", consumer);
        line.set("partitions", rows(partitions));
        line.set("assignment", rows(assignment));
        say(line);
    }

    static void failed(String consumer, Exception error) {
        say(MAPPER.createObjectNode().put("event", "failed").put("consumer", consumer)
            .put("error", error.toString()));
    }

    private static ArrayNode rows(Collection<TopicPartition> partitions) {
        ArrayNode rows = MAPPER.createArrayNode();
        partitions.forEach(row -> rows.addArray().add(row.topic()).add(row.partition()));
        return rows;
    }

    private static void say(ObjectNode line) {
        synchronized (MAPPER) {
            System.out.println(line);
            System.out.flush();
        }
    }
}
