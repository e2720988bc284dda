import java.math.BigInteger;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.EdECPoint;
import java.security.spec.EdECPublicKeySpec;
import java.security.spec.NamedParameterSpec;
import java.time.Instant;
import java.util.Base64;
import java.util.regex.Pattern;

/** How your own service verifies an access token offline, with java.security. Cache the keys in a real program. */
class Verify {
  static byte[] decode(String text) {
    return Base64.getUrlDecoder().decode(text);
  }

  static String field(String json, String name) {
    var match = Pattern.compile('"' + name + "\":\"?([^\",}]*)").matcher(json);
    return match.find() ? match.group(1) : "";
  }

  static void check(boolean isRight, String problem) {
    if (!isRight) throw new SecurityException(problem);
  }

  /** An Ed25519 key of a JWKS: 32 bytes, little-endian, whose highest bit is the sign of x (RFC 8032). */
  static PublicKey keyOf(String jwks, String kid) throws Exception {
    var match = Pattern.compile("\\{[^{}]*\"kid\":\"" + Pattern.quote(kid) + "\"[^{}]*\\}").matcher(jwks);
    check(match.find(), "unknown key");
    var little = decode(field(match.group(), "x"));
    var big = new byte[little.length];
    for (int i = 0; i < big.length; i++) big[i] = little[big.length - 1 - i];
    var isOdd = (big[0] & 0x80) != 0;
    big[0] &= 0x7f;
    var point = new EdECPoint(isOdd, new BigInteger(1, big));
    return KeyFactory.getInstance("Ed25519").generatePublic(new EdECPublicKeySpec(NamedParameterSpec.ED25519, point));
  }

  public static void main(String[] args) throws Exception {
    var url = System.getenv().getOrDefault("GATEHOUSE_URL", "http://localhost:3000");
    var request = HttpRequest.newBuilder(URI.create(url + "/.well-known/jwks.json")).build();
    var jwks = HttpClient.newHttpClient().send(request, BodyHandlers.ofString()).body();

    var parts = System.getenv("TOKEN").split("\\.");
    var header = new String(decode(parts[0]));
    check(field(header, "alg").equals("EdDSA"), "another algorithm");
    var signature = Signature.getInstance("Ed25519");
    signature.initVerify(keyOf(jwks, field(header, "kid")));
    signature.update((parts[0] + "." + parts[1]).getBytes());
    check(signature.verify(decode(parts[2])), "wrong signature");

    var claims = new String(decode(parts[1]));
    check(field(claims, "iss").equals(System.getenv().getOrDefault("ISSUER", url)), "another iss");
    check(field(claims, "aud").equals("gatehouse"), "another aud");
    check(Long.parseLong(field(claims, "exp")) > Instant.now().getEpochSecond(), "expired");
    System.out.println(field(claims, "sub"));
  }
}
