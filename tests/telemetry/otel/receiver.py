"""A receiver of OTLP over HTTP, run as a process: decodes with OTLP's own definitions, appends what came to a file.

`python -m tests.telemetry.otel.receiver FILE [--port N] [--script 503,503,…] [--cert PEM --client-ca PEM]`: prints
READY and its URL. Each answer takes the next status of the script, then 200; `partial` is 200 with one rejected.
"""

import argparse
import gzip
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

KINDS: dict[str, tuple[Any, Any, str]] = {
    "/v1/traces": (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse, "rejected_spans"),
    "/v1/logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse, "rejected_log_records"),
    "/v1/metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse, "rejected_data_points"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", default="")
    parser.add_argument("--cert", default="")
    parser.add_argument("--client-ca", default="")
    asked = parser.parse_args()
    script = [status for status in asked.script.split(",") if status]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request, response, rejected = KINDS[self.path]
            assert self.headers["content-type"] == "application/x-protobuf"
            body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            told = MessageToDict(request.FromString(body), preserving_proto_field_name=True)
            status = script.pop(0) if script else "200"
            line = {
                "path": self.path,
                "status": status,
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "message": told,
            }
            with asked.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
            answer = response()
            if status == "partial":
                setattr(answer.partial_success, rejected, 1)
                answer.partial_success.error_message = "one is too old"
                status = "200"
            data = answer.SerializeToString()
            self.send_response(int(status))
            if status == "503":
                self.send_header("retry-after", "0")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing: the file says it."""

    server = ThreadingHTTPServer(("127.0.0.1", asked.port), Handler)
    scheme = "http"
    if asked.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(asked.cert)
        context.load_verify_locations(asked.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    sys.stdout.write(f"READY {scheme}://localhost:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
