/** A tool that takes something from an origin, or brings it there: a script for an empty directory, and the last line that it says. */
export type PackageTool = { name: string; script: string; says: string }

const heredoc = (file: string, lines: readonly string[]): string => `cat > ${file} <<END\n${lines.join('\n')}\nEND`

const python = (...lines: string[]): string => `PYTHONPATH=$LIBRARIES python3 - <<END\n${lines.join('\n')}\nEND`

/**
 * Scripts for `sh`, which find node ≥ 24, npm, go, cargo and uv on their path, the URL of the origin as `ORIGIN`, and Python's libraries in
 * the directory `LIBRARIES`.
 */
export const PACKAGE_TOOLS: readonly PackageTool[] = [
  {
    name: 'pip installs',
    script: `python3 -m pip install --quiet --index-url $ORIGIN/simple toy && python3 -c 'import toy; print(toy.says)'`,
    says: '42',
  },
  {
    name: 'uv installs',
    script: `uv pip install --quiet --index-url $ORIGIN/simple --target out toy && cat out/toy.py`,
    says: 'says = 42',
  },
  {
    name: 'npm installs a scoped package',
    script: `echo {} > package.json; npm install --registry $ORIGIN/ --no-audit --no-fund @toys/one >&2 && node -p "require('@toys/one')"`,
    says: '42',
  },
  {
    name: 'go downloads a module',
    script: `printf 'module example.com/app\\n\\ngo 1.20\\n' > go.mod
export GOPROXY=$ORIGIN GONOSUMDB='*' GOSUMDB=off GOFLAGS=-modcacherw GOTOOLCHAIN=local
go get example.com/toy && grep -o 'example.com/toy v1.0.0' go.mod`,
    says: 'example.com/toy v1.0.0',
  },
  {
    name: 'cargo fetches from a registry',
    script: [
      'mkdir -p src .cargo; : > src/lib.rs',
      heredoc('.cargo/config.toml', ['[registries.toys]', `index = "sparse+$ORIGIN/index/"`]),
      heredoc('Cargo.toml', [
        ...['[package]', 'name = "app"', 'version = "0.1.0"', 'edition = "2021"'],
        ...['[dependencies]', 'toy = { version = "1", registry = "toys" }'],
      ]),
      'cargo fetch --quiet && grep toy Cargo.lock',
    ].join('\n'),
    says: 'name = "toy"',
  },
  {
    name: 'git clones and pushes over https',
    script: `set -e; export GIT_TERMINAL_PROMPT=0; git clone --quiet $ORIGIN/app.git work; cd work; git config user.name a
git config user.email a@example.com; head -c 3000000 /dev/urandom > file; git add .; git commit --quiet -m first
git push --quiet origin HEAD:main; git ls-remote --heads origin | cut -f 2`,
    says: 'refs/heads/main',
  },
  { name: 'curl reads', script: `curl -fsS $ORIGIN/a`, says: 'read' },
  {
    name: '[claude-agent-sdk-typescript#396] fetch of Node 24 reads',
    script: `node -e "fetch('$ORIGIN/a').then((answer) => answer.text()).then(console.log)"`,
    says: 'read',
  },
  { name: 'requests of Python reads', script: python('import requests', `print(requests.get('$ORIGIN/a').text)`), says: 'read' },
  { name: 'httpx of Python reads', script: python('import httpx', `print(httpx.get('$ORIGIN/a').text)`), says: 'read' },
  {
    name: 'a WebSocket client hears',
    // Not the client with threads: it reads and writes one TLS object at once, and loses the answer to one handshake of 6,000 without a proxy.
    script: python(
      'import asyncio',
      'from websockets.asyncio.client import connect',
      'async def hear():',
      `  async with connect('wss\${ORIGIN#https}/socket') as socket:`,
      "    await socket.send('hello'); print(await socket.recv())",
      'asyncio.run(hear())',
    ),
    says: 'heard hello',
  },
]
