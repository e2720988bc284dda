"""REST with requests."""
import json
import os

import requests

url = os.environ.get("GATEHOUSE_URL", "http://127.0.0.1:3000")
session = requests.Session()  # keeps the cookie of the refresh token
login = session.post(f"{url}/auth/login", json={"email": os.environ["EMAIL"], "password": os.environ["PASSWORD"]}, timeout=30)
login.raise_for_status()
session.headers["Authorization"] = f"Bearer {login.json()['accessToken']}"

profile = session.get(f"{url}/user/profile", timeout=30)
profile.raise_for_status()
print(profile.json()["email"])

asked = {"provider": "provider-a", "messages": [{"role": "user", "content": "case: plain"}]}
with session.post(f"{url}/ai/stream", json=asked, stream=True, timeout=60) as stream:
    stream.raise_for_status()
    stream.encoding = "utf-8"
    for line in stream.iter_lines(chunk_size=None, decode_unicode=True):
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise RuntimeError(event["error"])
        print(event["chunk"], end="", flush=True)
print()
