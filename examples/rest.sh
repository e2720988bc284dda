#!/bin/sh
# REST with curl. The password is passed on standard input, because other users of the machine can see arguments.
set -eu
url=${GATEHOUSE_URL:-http://127.0.0.1:3000}
json='Content-Type: application/json'

token=$(printf '{"email":"%s","password":"%s"}' "$EMAIL" "$PASSWORD" |
  curl -sS --fail-with-body -H "$json" -d @- "$url/auth/login" | sed 's/.*"accessToken":"\([^"]*\)".*/\1/')
bearer="Authorization: Bearer $token"
curl -sS --fail-with-body -H "$bearer" "$url/user/profile" | sed 's/.*"email":"\([^"]*\)".*/\1/'
echo
# -N shows each chunk as it arrives
curl -sS -N --fail-with-body -H "$bearer" -H "$json" "$url/ai/stream" \
  -d '{"provider":"provider-a","messages":[{"role":"user","content":"case: plain"}]}'
