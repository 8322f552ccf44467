// Members of the real high-level consumer of Kafka 0.8.2.2, which coordinate and read nothing.
// Argument: the connect string. Each line on stdin is a command, each on stdout its answer:
//   open ID GROUP STRATEGY white|black|static SUBSCRIPTION STREAMS   -> opened ID, or failed ID reason
//        (of `static`: topic=streams,topic=streams; else an expression of Java)
//   close ID -> closed ID
//   owned ID -> owned ID topic-partition ...

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import kafka.consumer.Blacklist;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.TopicFilter;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ZookeeperConsumerConnector;
import scala.collection.JavaConversions;

public class OldConsumer {
    static final Map<String, ZookeeperConsumerConnector> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            String[] word = line.split(" ");
            String answer;
            try {
                answer = command(word, arguments[0]);
            } catch (Exception e) {
                answer = "failed " + word[1] + " " + String.valueOf(e.getMessage()).replace("\n", " ");
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }

    static String command(String[] word, String connect) throws Exception {
        String id = word[1];
        switch (word[0]) {
            case "open":
                open(id, word, connect);
                return "opened " + id;
            case "close":
                members.remove(id).shutdown();
                return "closed " + id;
            case "owned":
                return "owned " + id + owned(members.get(id));
            default:
                throw new IllegalArgumentException(word[0]);
        }
    }

    static void open(String id, String[] word, String connect) {
        Properties properties = new Properties();
        properties.put("zookeeper.connect", connect);
        properties.put("zookeeper.session.timeout.ms", "3000");
        properties.put("rebalance.backoff.ms", "300");
        properties.put("group.id", word[2]);
        properties.put("consumer.id", id);
        properties.put("partition.assignment.strategy", word[3]);
        ZookeeperConsumerConnector member =
            new ZookeeperConsumerConnector(new ConsumerConfig(properties), false);
        members.put(id, member);
        if (word[4].equals("static")) {
            Map<String, Integer> topics = new HashMap<>();
            for (String each : word[5].split(",")) topics.put(each.split("=")[0], Integer.valueOf(each.split("=")[1]));
            member.createMessageStreams(topics);
        } else {
            TopicFilter filter = word[4].equals("white") ? new Whitelist(word[5]) : new Blacklist(word[5]);
            member.createMessageStreamsByFilter(filter, Integer.parseInt(word[6]));
        }
    }

    static String owned(ZookeeperConsumerConnector member) throws Exception {
        TreeSet<String> found = new TreeSet<>();
        for (Field field : ZookeeperConsumerConnector.class.getDeclaredFields()) {
            if (field.getType() != kafka.consumer.ZookeeperConsumerConnector.class) continue;
            field.setAccessible(true);
            kafka.consumer.ZookeeperConsumerConnector real = (kafka.consumer.ZookeeperConsumerConnector) field.get(member);
            for (String topic : JavaConversions.asJavaIterable(real.getTopicRegistry().keys()))
                for (Object partition : JavaConversions.asJavaIterable(real.getTopicRegistry().get(topic).keys()))
                    found.add(topic + "-" + partition);
        }
        return found.isEmpty() ? "" : " " + String.join(" ", found);
    }
}
