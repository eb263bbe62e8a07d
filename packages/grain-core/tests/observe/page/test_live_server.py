"""The live page: served on loopback to this machine only, up to date, and gone when it is closed."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import urllib.error
import urllib.request

import pytest

from grain.observe.page.content import PageContent
from grain.observe.page.live_server import LiveServer
from grain.observe.page.page_graph import graph_of_statistics

from ..sample_statistics import sample_statistics
from .test_markup import Tags


def content(**changes) -> PageContent:
    stats = sample_statistics(**changes)
    return PageContent(nodes=graph_of_statistics(stats), title=stats.name, statistics=stats)


@pytest.fixture
def server():
    with LiveServer(lambda: [content()]) as server:
        yield server


def get(server, path="", headers=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        prefix = server.url.split(str(server.port))[1]
        connection.putrequest(method, prefix + path, skip_host=True)
        for name, value in ({"Host": f"127.0.0.1:{server.port}"} | (headers or {})).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def test_the_page_and_its_data_are_served(server):
    answer, page = get(server)
    assert answer.status == 200
    parsed = Tags(page)
    assert parsed.tags.count("script") == 1
    nonce = dict(a for a in parsed.attributes if a[0] == "nonce")["nonce"]
    assert f"script-src 'nonce-{nonce}'" in answer.headers["Content-Security-Policy"]
    answer, text = get(server, "data.json")
    data = json.loads(text)
    assert data["bottleneck"] == 2
    assert data["ended"] is False
    identifiers = {value for name, value in parsed.attributes if name == "id"}
    assert set(data["parts"]) <= identifiers
    assert ("data-shape", data["shape"]) in parsed.attributes


def test_the_data_is_that_of_the_moment():
    elements = [1, 2]
    with LiveServer(lambda: [content(elements=elements[0])]) as server:
        first = json.loads(get(server, "data.json")[1])
        elements[0] = 12_345
        second = json.loads(get(server, "data.json")[1])
        server.end()
        third = json.loads(get(server, "data.json")[1])
    assert "12,345" not in first["parts"]["tiles"]
    assert "12,345" in second["parts"]["tiles"]
    assert first["shape"] == second["shape"]
    assert third["ended"] is True


def test_several_pipelines_have_links_and_the_last_is_shown():
    pages = [content(name="train"), content(name="<b>eval")]
    with LiveServer(lambda: pages) as server:
        page = get(server)[1]
        assert "<h1>&lt;b&gt;eval</h1>" in page
        assert 'href="?pipeline=0"' in page
        assert "<h1>train</h1>" in get(server, "?pipeline=0")[1]
        for wrong in ("?pipeline=7", "?pipeline=-1", "?pipeline=x", "?pipeline=" + "9" * 50):
            assert "<h1>&lt;b&gt;eval</h1>" in get(server, wrong)[1]


def test_before_the_first_pipeline_there_is_a_page():
    with LiveServer(list) as server:
        assert "No pipeline runs yet" in get(server)[1]
        assert json.loads(get(server, "data.json")[1])["parts"] == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_of_other_names_and_origins_are_refused(server, headers):
    answer, text = get(server, "data.json", headers)
    assert answer.status == 403
    assert "decode" not in text


def test_no_answer_allows_other_origins(server):
    for path in ("", "data.json", "nothing"):
        answer, _ = get(server, path)
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_without_the_token_there_is_no_page(server):
    for path in ("/", "/data.json", "/wrong/", "/../etc/passwd"):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30)
        assert error.value.code == 404
        error.value.close()
    with LiveServer(list) as other:
        assert other.url.split("/")[3] != server.url.split("/")[3]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "NONSENSE"])
def test_other_methods_are_refused(server, method):
    answer, _ = get(server, method=method)
    assert answer.status == 501


def test_a_head_request_has_no_body(server):
    answer, text = get(server, method="HEAD")
    assert (answer.status, text) == (200, "")


def test_localhost_is_accepted_by_name(server):
    assert get(server, headers={"Host": f"localhost:{server.port}"})[0].status == 200


def test_an_error_of_the_provider_is_shown_and_the_server_continues():
    failures = [True]

    def pages():
        if failures.pop() if failures else False:
            raise ValueError("<script>")
        return [content()]

    with LiveServer(pages) as server:
        answer, text = get(server)
        assert answer.status == 500
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert "ValueError" in text
        assert get(server)[0].status == 200


def test_only_the_loopback_interface_is_used(server):
    assert server._server.server_address[0] == "127.0.0.1"


def test_a_closed_server_has_no_thread_and_no_socket():
    before = set(threading.enumerate())
    server = LiveServer(lambda: [content()])
    get(server)
    server.close()
    server.close()
    left = [t for t in set(threading.enumerate()) - before if t.name == "grain-live-page"]
    assert left == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=30)


def test_a_connection_that_sends_nothing_does_not_delay_the_shutdown():
    server = LiveServer(lambda: [content()])
    with socket.create_connection(("127.0.0.1", server.port), timeout=30):
        server.close()


def test_a_port_that_is_taken_or_wrong_is_an_error(server):
    with pytest.raises(OSError, match=f"Port {server.port} of 127.0.0.1 cannot be used"):
        LiveServer(list, port=server.port)
    with pytest.raises(ValueError, match="0 to 65535, got 70000"):
        LiveServer(list, port=70000)
