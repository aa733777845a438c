"""From a whole HTTP request to what the governor is told of it, or to why not: route, key, labels, body."""

from typing import Final
from zlib import crc32

from plimsoll.gateway.auth import Keyring
from plimsoll.gateway.cors import Cors
from plimsoll.gateway.errors import Refusal
from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Answer, ClientRequest, Headers
from plimsoll.gateway.labels import ClientLabels, read_labels
from plimsoll.gateway.models import Catalogue
from plimsoll.gateway.openai import BadBody, Body
from plimsoll.gateway.prompts import TokenRatio, entropy
from plimsoll.gateway.routes import HEALTH, MODELS, find_route, is_messages
from plimsoll.gateway.vouching import Vouching
from plimsoll.governor.events import ENTROPY_EVERY, Endpoint, RequestArrived
from plimsoll.policy.policy import Policy, Tenant
from plimsoll.slo.outcome import Reason

PLAIN: Final = (b"content-type", b"text/plain; charset=utf-8")
ENDS: Final = 4096  # bytes
_OTHER: Final = Endpoint.OTHER
_BAD_REQUEST: Final = Reason.BAD_REQUEST


class Intake:
    """Reads requests under one policy."""

    def __init__(self, policy: Policy, ratios: dict[str, TokenRatio], signatures: dict[bytes, float]) -> None:
        """What is learnt of prompts and which signatures were used outlive the policy."""
        self._keyring = Keyring(policy)
        self._catalogue = Catalogue(policy)
        self._cors = Cors(policy.gateway.cors_origins)
        self._vouching = Vouching(policy.service, seen=signatures)
        self.secrets = self._vouching.secrets
        self._max_body = policy.gateway.max_body
        self._ratios = ratios

    def tenant(self, request: ClientRequest) -> Tenant | None:
        """Whose request it is; None where the key is missing or nobody's."""
        return self._keyring.tenant(request.fields)

    def cors(self, request: ClientRequest) -> Headers:
        """Headers for the answer that browsers look for."""
        return self._cors.headers(request.fields) if self._cors.enabled else ()

    def own_answer(self, request: ClientRequest, *, ready: bool) -> Answer | None:
        """What we answer ourselves: browsers' questions and health without a key, the list of models with one."""
        if request.method == b"OPTIONS":
            return self._cors.preflight(request.fields)
        if request.method not in (b"GET", b"HEAD"):
            return None
        path = request.target.partition(b"?")[0]
        if path in HEALTH:
            fine = ready or path != b"/readyz"
            return Answer(200, (PLAIN,), b"ok\n") if fine else Answer(503, (PLAIN,), b"draining\n")
        if not (path == MODELS or path.startswith(MODELS + b"/")) or self.tenant(request) is None:
            return None
        answer = self._catalogue.answer(path) or self.refusal(request, Reason.UNKNOWN_MODEL).answer()
        return Answer(answer.status, (*answer.headers, *self.cors(request)), answer.body)

    def refusal(self, request: ClientRequest, reason: Reason, detail: str = "", param: str = "") -> Refusal:
        """Words for a refusal, with the facts that the reason calls for."""
        headers = list(self.cors(request))
        if reason is Reason.METHOD_NOT_ALLOWED:
            headers.append((b"allow", find_route(request.method, request.target).allow or b"GET, POST"))
        if not detail and reason is Reason.UNKNOWN_MODEL:
            detail = self._catalogue.known()
        elif not detail and reason is Reason.BODY_TOO_LARGE:
            detail = f"limit {self._max_body} bytes"
        elif not detail and reason is Reason.UNKNOWN_ENDPOINT:
            detail = request.target[:200].decode("latin-1")
        param = param or ("model" if reason is Reason.UNKNOWN_MODEL else "")
        return Refusal(
            reason, detail=detail, param=param or None, anthropic=is_messages(request.target), headers=tuple(headers)
        )

    def labels(self, request: ClientRequest) -> ClientLabels:
        """The headers that concern us. Raises BadHeader."""
        return read_labels(request.fields, request.arrived_at, self._vouching)

    def check(self, body: Body) -> Body:
        """The body with a model. A request that names none is for the only one there is, or a fault (BadBody)."""
        if body.model:
            return body
        if not self._catalogue.only:
            raise BadBody(f"the request names no model, and several are served ({self._catalogue.known()})", "model")
        return body._replace(model=self._catalogue.only)

    def arrival(self, flight: Flight, body: Body) -> RequestArrived:
        """What the governor is told."""
        request = flight.exchange.request
        labels = flight.labels
        prompt = body.prompt
        ratio = self._ratios.get(body.model) or self._ratio(body.model)
        exact = prompt.exact_tokens
        return RequestArrived(
            request.read_at,
            flight.request_id,
            flight.tenant.name,
            body.model,
            exact + ratio.estimate(prompt.num_bytes) if prompt.num_bytes else exact,
            body.max_output_tokens,
            body.num_choices,
            prompt.hashes,
            prompt.block_tokens or int(prompt.block_bytes / ratio.bytes_per_token),
            flight.endpoint,
            body.streaming,
            labels.tier,
            labels.cause,
            labels.criticality,
            labels.session,
            labels.deadline_at,
            labels.upstream_time,
            labels.upstream_trust,
            "",
            labels.client_request_id,
            labels.trace_id,
            _hash_of(request.body),
            labels.parent_span_id,
            entropy(request.body) if flight.request_id % ENTROPY_EVERY == 0 else None,
        )

    def learn(self, body: Body, prompt_tokens: int) -> None:
        """An engine has counted that prompt."""
        if body.prompt.num_bytes and not body.prompt.exact_tokens:
            self._ratio(body.model).learn(body.prompt.num_bytes, prompt_tokens)

    def _ratio(self, model: str) -> TokenRatio:
        """One a model that we serve; names that clients make up share one and are refused anyway."""
        name = model if model in self._catalogue.names else ""
        return self._ratios.setdefault(name, TokenRatio())


def _hash_of(body: bytes) -> int:
    """What the same body sent again has too; of a long one by its ends, which is what this may cost."""
    return crc32(body[-ENDS:], crc32(body[:ENDS], len(body))) | 1 << 32
