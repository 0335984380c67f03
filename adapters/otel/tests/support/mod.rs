//! A collector for OTLP over HTTP that only records, and the exporters that send to it.

#![allow(dead_code)] // Each test uses what it needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// The requests that came in: their heads and their bodies.
#[derive(Clone, Default)]
pub(crate) struct Collector {
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl Collector {
    /// Listens on a free port, and returns its address.
    pub(crate) fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Self::default();
        let inside = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                inside.receive(stream.unwrap());
            }
        });
        (collector, address)
    }

    fn receive(&self, stream: TcpStream) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(stream);
        let (mut head, mut bytes) = (String::new(), 0);
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "{head}");
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                if name.eq_ignore_ascii_case("content-length") {
                    bytes = value.trim().parse().unwrap();
                }
            }
            head += &line;
        }
        let mut body = vec![0; bytes];
        reader.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).expect("JSON");
        self.requests.lock().unwrap().push((head, body));
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }

    /// All that came in, as it came.
    pub(crate) fn everything(&self) -> String {
        format!("{:?}", self.requests.lock().unwrap())
    }

    fn bodies(&self, path: &str) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        let start = format!("POST {path} HTTP/1.1\r\n");
        let wanted = requests.iter().filter(|(head, _)| head.starts_with(&start));
        wanted
            .map(|(_, body)| serde_json::from_str(body).unwrap())
            .collect()
    }

    /// The spans that came in, each with the name of its service as `service`.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for body in self.bodies("/v1/traces") {
            for resource in list(&body["resourceSpans"]) {
                let service = attribute(&resource["resource"], "service.name").unwrap();
                for scope in list(&resource["scopeSpans"]) {
                    assert_eq!(scope["scope"]["name"], "antiphon");
                    for span in list(&scope["spans"]) {
                        let mut span = span.clone();
                        span["service"] = service.clone().into();
                        found.push(span);
                    }
                }
            }
        }
        found
    }

    /// The data points of a metric, with its unit in each.
    pub(crate) fn points(&self, name: &str) -> Vec<Value> {
        let mut found = Vec::new();
        for body in self.bodies("/v1/metrics") {
            let resources = list(&body["resourceMetrics"]).iter();
            let scopes = resources.flat_map(|resource| list(&resource["scopeMetrics"]));
            let metrics = scopes.flat_map(|scope| list(&scope["metrics"]));
            for metric in metrics.filter(|metric| metric["name"] == name) {
                let points = metric["histogram"].get("dataPoints");
                let points = points.or_else(|| metric["sum"].get("dataPoints")).unwrap();
                for point in list(points) {
                    let mut point = point.clone();
                    point["unit"] = metric["unit"].clone();
                    found.push(point);
                }
            }
        }
        found
    }
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// An attribute of a span or of a point, as text.
pub(crate) fn attribute(of: &Value, name: &str) -> Option<String> {
    let all = list(&of["attributes"]).iter();
    let mut found = all.filter(|attribute| attribute["key"] == name);
    let value = &found.next()?["value"];
    let text = value.get("stringValue").or_else(|| value.get("intValue"))?;
    Some(
        text.as_str()
            .map_or_else(|| text.to_string(), str::to_owned),
    )
}

/// The HTTP client of the exporters, over a blocking socket.
#[derive(Debug)]
struct Plain;

#[async_trait::async_trait]
impl HttpClient for Plain {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri();
        let mut stream = TcpStream::connect(uri.authority().unwrap().as_str())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = format!("POST {} HTTP/1.1\r\nhost: collector\r\n", uri.path());
        for (name, value) in request.headers() {
            if name != http::header::CONTENT_LENGTH {
                head += &format!("{name}: {}\r\n", value.to_str()?);
            }
        }
        head += &format!("content-length: {}\r\n\r\n", request.body().len());
        stream.write_all(head.as_bytes())?;
        stream.write_all(request.body())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(Response::new(Bytes::from_static(b"{}")))
    }
}

/// The providers of spans and metrics of one program.
pub(crate) struct Program {
    pub(crate) spans: SdkTracerProvider,
    pub(crate) meters: SdkMeterProvider,
}

impl Program {
    pub(crate) fn new(name: &'static str, collector: SocketAddr) -> Self {
        let resource = Resource::builder_empty().with_service_name(name).build();
        let spans = SpanExporter::builder()
            .with_http()
            .with_http_client(Plain)
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("http://{collector}/v1/traces"))
            .build()
            .unwrap();
        let metrics = MetricExporter::builder()
            .with_http()
            .with_http_client(Plain)
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("http://{collector}/v1/metrics"))
            .build()
            .unwrap();
        Self {
            spans: SdkTracerProvider::builder()
                .with_resource(resource.clone())
                .with_batch_exporter(spans)
                .build(),
            meters: SdkMeterProvider::builder()
                .with_resource(resource)
                .with_periodic_exporter(metrics)
                .build(),
        }
    }

    /// Sends all that there is.
    pub(crate) fn flush(&self) {
        self.spans.force_flush().unwrap();
        self.meters.force_flush().unwrap();
    }
}
