// One of Kafka's assignor classes, prepared on a group so that nothing but its own work is timed.

import java.util.List;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;

/** `run` is what is timed; `lists` reads its result, by member id. */
interface Strategy {
    Object run();

    Map<String, List<TopicPartition>> lists(Object result);

    static Strategy of(String name, Group group) {
        return switch (name) {
            case "uniform", "server-range" -> new ServerSide(name, group);
            default -> new ClientSide(name, group);
        };
    }
}
