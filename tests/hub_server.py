"""A server on this machine that speaks what huggingface_hub asks of the Hugging Face Hub to send and fetch models."""

import base64
import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse


class Hub:
    """Repositories: `commits` is {repository: [(commit, {path: bytes}), ...]}; `broken` are paths that break off."""

    def __init__(self):
        self.commits, self.broken, self.asked = {}, set(), []

    def find(self, repository, revision):
        """(commit, files) of a branch, the last commit, or of a commit; None if there is none."""
        commits = self.commits.get(repository, [])
        return next((each for each in reversed(commits) if revision in ("main", each[0])), None)

    def commit(self, repository, changed, deleted=()):
        """Add a commit with changed files, and without deleted ones; returns its name."""
        files = {**(self.commits[repository][-1][1] if self.commits[repository] else {}), **changed}
        files = {path: content for path, content in files.items() if path not in deleted}
        name = hashlib.sha1(repr(sorted((path, hashlib.sha1(content).hexdigest()) for path, content in files.items())
                                 ).encode()).hexdigest()
        self.commits[repository].append((name, files))
        return name


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        return content

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.server.hub, urllib.parse.unquote(urllib.parse.urlparse(self.path).path)
        hub.asked.append(f"{self.command} {path}")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+?)(?:/(revision|tree)/(.+))?", path):
            at = hub.find(found[1], found[3] or "main")
            if hub.commits.get(found[1]) == [] and found[2] == "tree":
                at = ("", {})           # a new repository
            if at is None:
                self.wfile.write(self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound"))
                return
            siblings = [{"rfilename": name} for name in at[1]]
            tree = [{"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                    for name, content in at[1].items()]
            self.wfile.write(self.answer(200, tree if found[2] == "tree" else
                                         {"id": found[1], "sha": at[0], "siblings": siblings}))
            return
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        at = found and hub.find(found[1], found[2])
        if not at or found[3] not in at[1]:
            self.wfile.write(self.answer(404, {"error": "no"}, X_Error_Code="EntryNotFound" if at else "RepoNotFound"))
            return
        content = at[1][found[3]]
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": at[0]}
        content = self.answer(200, content, **headers)
        if self.command == "GET":
            self.wfile.write(content[:len(content) // 2] if found[3] in hub.broken else content)
            if found[3] in hub.broken:
                self.close_connection = True
                self.connection.close()

    def do_POST(self):
        hub, path = self.server.hub, self.path.partition("?")[0]
        hub.asked.append(f"POST {path}")
        size = self.headers["Content-Length"]
        body = b"".join(self.read_chunks()) if size is None else self.rfile.read(int(size))
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            hub.commits.setdefault(name, [])
            self.wfile.write(self.answer(200, {"url": f"{self.server.address}/{name}", "name": name, "id": "1"}))
        elif path == "/api/validate-yaml":
            self.wfile.write(self.answer(200, {"errors": [], "warnings": []}))
        elif path.startswith("/api/models/") and "/preupload/" in path:
            self.wfile.write(self.answer(200, {"files": [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]]}))
        elif path.startswith("/api/models/") and "/commit/" in path:
            lines = [json.loads(line) for line in body.splitlines()]
            changed = {line["value"]["path"]: base64.b64decode(line["value"]["content"])
                       for line in lines if line["key"] == "file"}
            deleted = [line["value"]["path"] for line in lines if line["key"] == "deletedFile"]
            repository = "/".join(path.split("/")[3:5])
            commit = hub.commit(repository, changed, deleted)
            self.wfile.write(self.answer(200, {"commitUrl": f"{self.server.address}/{repository}/commit/{commit}",
                                               "commitOid": commit, "success": True}))
        else:
            self.wfile.write(self.answer(404, {"error": f"no {path}"}))

    def read_chunks(self):
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()


@contextlib.contextmanager
def serve():
    """Give (its address, the Hub) of a server on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads, server.hub = True, Hub()
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.address, server.hub
    finally:
        server.shutdown()
        server.server_close()
