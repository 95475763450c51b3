"""A collector of OpenTelemetry for tests: decodes what it receives with the official messages, and prints one JSON object a span."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def values(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path != "/v1/traces" or self.headers["content-type"] != "application/x-protobuf":
            self.send_error(400)
            return
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    say({
                        "service": values(resource.resource.attributes)["service.name"],
                        "trace": span.trace_id.hex(),
                        "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "name": span.name,
                        "kind": span.kind,
                        "ms": (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6,
                        "started": span.start_time_unix_nano,
                        "status": span.status.code,
                        "key": self.headers.get("api-key"),
                        "attributes": values(span.attributes),
                    })
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def say(line):
    print(json.dumps(line), flush=True)


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Collector)
say({"name": "listening", "port": server.server_port})
server.serve_forever()
