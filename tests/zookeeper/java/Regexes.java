// Each line on stdin: an expression and names, apart by tabs. On stdout: `refused`, or a 1 for each
// name that it matches and a 0 for each that it does not.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

public class Regexes {
    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder output = new StringBuilder();
        for (String line; (line = input.readLine()) != null; ) {
            String[] word = line.split("\t", -1);
            try {
                Pattern pattern = Pattern.compile(word[0]);
                for (int i = 1; i < word.length; i++) output.append(pattern.matcher(word[i]).matches() ? '1' : '0');
            } catch (PatternSyntaxException | StringIndexOutOfBoundsException e) {
                output.append("refused");
            }
            output.append('\n');
        }
        System.out.print(output);
    }
}
