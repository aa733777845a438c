"""Which model a target serves, asked of the target itself."""

import http.client
import ssl

import msgspec

from plimsoll.errors import UsageError
from plimsoll.load.connection import Target


def first_model(where: Target, key: str) -> str:
    """The first id of `/v1/models`. Raises UsageError where the target cannot be reached or lists none."""
    if where.tls:
        secure = http.client.HTTPSConnection(where.host, where.port, timeout=10, context=ssl.create_default_context())
        return _ask(secure, where, key)
    return _ask(http.client.HTTPConnection(where.host, where.port, timeout=10), where, key)


def _ask(connection: http.client.HTTPConnection, where: Target, key: str) -> str:
    advice = "name one with --model"
    try:
        connection.request("GET", f"{where.path}/v1/models", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = answer.read()
        listed = msgspec.json.decode(body) if answer.status == 200 else {}
        return str(listed["data"][0]["id"])
    except OSError as error:
        raise UsageError(f"cannot reach {where.authority}: {error}") from error
    except (msgspec.DecodeError, http.client.HTTPException, KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{where.authority} lists no models at /v1/models: {advice}") from error
    finally:
        connection.close()
