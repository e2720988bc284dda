"""REST with a client that OpenAPI Generator generated from the OpenAPI document."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "dist"))
from gatehouse_client import AIApi, ApiClient, AuthApi, Configuration, UserApi

configuration = Configuration(host=os.environ.get("GATEHOUSE_URL", "http://127.0.0.1:3000"))
with ApiClient(configuration) as client:
    credentials = {"email": os.environ["EMAIL"], "password": os.environ["PASSWORD"]}
    configuration.access_token = AuthApi(client).login(credentials).access_token
    print(UserApi(client).get_profile().email)
    asked = {"provider": "provider-a", "messages": [{"role": "user", "content": "case: plain"}]}
    print(AIApi(client).chat(asked).content)
