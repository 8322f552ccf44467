// Consumers of Kafka's Java client, steered over lines of JSON as tests/clients/driver.py says.
package pykcoord.clients;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

public final class JavaClient {
    private JavaClient() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, SteeredConsumer> consumers = new HashMap<>();
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = Lines.MAPPER.readTree(line);
            String name = request.get("consumer").asText();
            if (request.get("op").asText().equals("open")) {
                Lines.reply(request, () -> {
                    SteeredConsumer consumer = new SteeredConsumer(request);
                    consumers.put(name, consumer);
                    consumer.start();
                    return null;
                });
            } else {
                consumers.get(name).requests.add(request);
            }
        }
        System.exit(0);
    }
}
