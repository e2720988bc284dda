import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** REST with java.net.http. Use a JSON library in a real program; this one avoids dependencies. */
class Rest {
  static final HttpClient client = HttpClient.newHttpClient();
  static final String url = System.getenv().getOrDefault("GATEHOUSE_URL", "http://127.0.0.1:3000");

  static <T> T call(String path, String token, String body, HttpResponse.BodyHandler<T> handler) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(url + path));
    if (token != null) request.header("authorization", "Bearer " + token);
    if (body != null) request.header("content-type", "application/json").POST(BodyPublishers.ofString(body));
    var response = client.send(request.build(), handler);
    if (response.statusCode() >= 400) throw new RuntimeException(path + " answered " + response.statusCode());
    return response.body();
  }

  /** The text of a JSON field. */
  static String field(String json, String name) {
    var match = Pattern.compile('"' + name + "\":\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(json);
    if (!match.find()) throw new RuntimeException("no " + name + " in " + json);
    return match.group(1).translateEscapes();
  }

  static String json(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  public static void main(String[] args) throws Exception {
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    var email = json(System.getenv("EMAIL"));
    var password = json(System.getenv("PASSWORD"));
    var login = call("/auth/login", null, "{\"email\":" + email + ",\"password\":" + password + "}", BodyHandlers.ofString());
    var token = field(login, "accessToken");
    out.println(field(call("/user/profile", token, null, BodyHandlers.ofString()), "email"));

    var chat = "{\"provider\":\"provider-a\",\"messages\":[{\"role\":\"user\",\"content\":\"case: plain\"}]}";
    try (Stream<String> lines = call("/ai/stream", token, chat, BodyHandlers.ofLines())) {
      lines.filter(line -> line.startsWith("data: {")).forEach(line -> out.print(field(line, "chunk")));
    }
    out.println();
  }
}
