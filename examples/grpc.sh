#!/bin/sh
# gRPC with buf curl, which gets the schema from the server by reflection.
set -eu
call() {
  buf curl --protocol grpc --http2-prior-knowledge -H "Authorization: Bearer ${token-}" -d @- \
    "${GATEHOUSE_GRPC:-http://127.0.0.1:50051}/gatehouse.$1"
}
token=$(printf '{"email":"%s","password":"%s"}' "$EMAIL" "$PASSWORD" |
  call account.v1.AuthService/Login | sed -n 's/.*"accessToken": *"\([^"]*\)".*/\1/p')
echo '{}' | call account.v1.UserService/GetProfile
echo '{"provider":"provider-a","messages":[{"role":"user","content":"case: plain"}]}' | call ai.v1.AIService/StreamChat
