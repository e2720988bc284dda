"""gRPC with grpcio."""
import os
import sys
from urllib.parse import urlparse

import grpc

sys.path.insert(0, os.environ.get("PROTOS", "protos"))  # what protoc generated
from gatehouse.account.v1 import auth_service_pb2, auth_service_pb2_grpc, user_service_pb2, user_service_pb2_grpc
from gatehouse.ai.v1 import ai_service_pb2, ai_service_pb2_grpc

address = urlparse(os.environ.get("GATEHOUSE_GRPC", "http://127.0.0.1:50051")).netloc
with grpc.insecure_channel(address) as channel:
    login = auth_service_pb2_grpc.AuthServiceStub(channel).Login(
        auth_service_pb2.LoginRequest(email=os.environ["EMAIL"], password=os.environ["PASSWORD"]), timeout=30
    )
    metadata = [("authorization", f"Bearer {login.access_token}")]
    users = user_service_pb2_grpc.UserServiceStub(channel)
    print(users.GetProfile(user_service_pb2.GetProfileRequest(), metadata=metadata, timeout=30).user.email)
    asked = ai_service_pb2.StreamChatRequest(provider="provider-a", messages=[{"role": "user", "content": "case: plain"}])
    for reply in ai_service_pb2_grpc.AIServiceStub(channel).StreamChat(asked, metadata=metadata, timeout=60):
        print(reply.chunk, end="", flush=True)
print()
