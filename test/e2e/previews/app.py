"""A small web application: a page, something to fetch, cookies, and a WebSocket that says what it hears."""

import base64
import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"""<!doctype html><title>app</title><link rel="icon" href="data:,"><script type="module">
const got = await (await fetch('/api', { method: 'POST', body: 'sent' })).json()
const socket = new WebSocket(location.origin.replace('http', 'ws') + '/ws')
const heard = await new Promise((resolve, reject) => {
  socket.onopen = () => socket.send('hello')
  socket.onmessage = ({ data }) => resolve(data)
  socket.onerror = () => reject(new Error('the socket failed'))
})
globalThis.socket = socket
const evil = await fetch('/evil').then((answer) => answer.url)
document.body.textContent = JSON.stringify({ ...got, heard, evil, readable: document.cookie })
</script>"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, kind, *headers):
        self.send_response(200)
        for name, value in [("content-type", kind), ("content-length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/ws":
            return self.echo()
        if self.path == "/evil":
            self.send_response(302)
            self.send_header("location", f"http://localhost:{self.server.server_port}/api")
            self.send_header("content-length", "0")
            self.end_headers()
            return None
        if self.path == "/api":
            return self.do_POST()
        return self.answer(PAGE, "text/html", ("set-cookie", "app=1; Domain=localhost"), ("set-cookie", "__Host-bx_preview=forged; Secure; Path=/"))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        seen = {name: self.headers.get(name) for name in ("host", "origin", "cookie")}
        self.answer(json.dumps({**seen, "body": body}).encode(), "application/json")

    def echo(self):
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.wfile.write(
            f"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n".encode()
        )
        self.close_connection = True
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            mask = self.rfile.read(4)
            text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes([head[0], len(text)]) + text)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
