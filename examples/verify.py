"""How your own service verifies an access token offline, with PyJWT."""
import os

import jwt

url = os.environ.get("GATEHOUSE_URL", "http://localhost:3000")
keys = jwt.PyJWKClient(f"{url}/.well-known/jwks.json")  # cached; asks again for a new key
token = os.environ["TOKEN"]
claims = jwt.decode(
    token,
    keys.get_signing_key_from_jwt(token).key,
    algorithms=["EdDSA"],
    audience="gatehouse",
    issuer=os.environ.get("ISSUER", url),
)
print(claims["sub"])
