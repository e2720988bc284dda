// Receives events of a webhook: verifies each signature, and skips events that it has had before.
// Reads WEBHOOK_SECRET (whsec_…) and PORT. Java 17, standard library: java Receiver.java

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
  static final byte[] KEY =
      Base64.getDecoder().decode(System.getenv("WEBHOOK_SECRET").replaceFirst("^whsec_", ""));
  static final long MAX_AGE_SECONDS = 300;
  static final Set<String> seen = ConcurrentHashMap.newKeySet(); // a table with a unique column in a real service

  static boolean isSigned(Headers headers, byte[] body) throws Exception {
    String timestamp = String.valueOf(headers.getFirst("webhook-timestamp"));
    if (!timestamp.matches("[0-9]{1,12}")) return false;
    long age = Instant.now().getEpochSecond() - Long.parseLong(timestamp);
    if (Math.abs(age) > MAX_AGE_SECONDS) return false;
    var content = new ByteArrayOutputStream();
    content.write((headers.getFirst("webhook-id") + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
    content.write(body);
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(KEY, "HmacSHA256"));
    String expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(content.toByteArray()));
    for (String given : String.valueOf(headers.getFirst("webhook-signature")).split(" "))
      if (MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), expected.getBytes(StandardCharsets.UTF_8)))
        return true;
    return false;
  }

  public static void main(String[] args) throws Exception {
    String port = System.getenv().getOrDefault("PORT", "8080");
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), 0);
    server.createContext("/", exchange -> {
      byte[] body = exchange.getRequestBody().readAllBytes();
      int status = 401;
      try {
        if (isSigned(exchange.getRequestHeaders(), body)) {
          if (seen.add(exchange.getRequestHeaders().getFirst("webhook-id")))
            System.out.println(new String(body, StandardCharsets.UTF_8));
          status = 204;
        }
      } catch (Exception error) {
        status = 500; // the delivery is tried again
      }
      exchange.sendResponseHeaders(status, -1);
      exchange.close();
    });
    server.start();
  }
}
