/**
 * Numbered migrations; `PRAGMA user_version` is how many have run. A migration that has shipped is never edited.
 * Times are milliseconds since 1970. STRICT tables, so a wrong type is an error and not a surprise.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE profiles (
    hash TEXT PRIMARY KEY,
    json TEXT NOT NULL
  ) STRICT;

  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    scope_type TEXT NOT NULL CHECK (scope_type IN ('thread', 'workspace', 'assistant', 'deployment')),
    scope_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('provisioning', 'active', 'idle', 'suspended', 'terminated', 'failed')),
    reason TEXT,
    owner TEXT NOT NULL,
    profile_hash TEXT NOT NULL REFERENCES profiles (hash),
    labels TEXT NOT NULL,
    relay TEXT NOT NULL,
    shape TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    hard_expires_at INTEGER NOT NULL,
    lease_expires_at INTEGER NOT NULL,
    last_activity_at INTEGER NOT NULL,
    busy INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    agent_id TEXT NOT NULL,
    broker_id TEXT,
    fence INTEGER NOT NULL DEFAULT 1,
    provision_deadline INTEGER,
    sandbox_id TEXT,
    provider TEXT,
    isolation TEXT,
    generation INTEGER NOT NULL DEFAULT 0,
    activated_at INTEGER,
    suspend_mode TEXT,
    suspended_at INTEGER,
    ended_at INTEGER
  ) STRICT, WITHOUT ROWID;

  -- [C-21] One live session per scope; the index decides, never a select before an insert.
  CREATE UNIQUE INDEX sessions_live ON sessions (tenant, scope_type, scope_id)
    WHERE state IN ('provisioning', 'active', 'idle', 'suspended');
  CREATE INDEX sessions_due ON sessions (due_at) WHERE state IN ('provisioning', 'active', 'idle', 'suspended');
  CREATE INDEX sessions_provisioning ON sessions (broker_id) WHERE state = 'provisioning';
  CREATE INDEX sessions_agent_live ON sessions (agent_id) WHERE state IN ('provisioning', 'active', 'idle', 'suspended');
  CREATE INDEX sessions_agent_ended ON sessions (agent_id, ended_at) WHERE ended_at IS NOT NULL;
  CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
  CREATE INDEX sessions_tenant_live ON sessions (tenant, created_at DESC, id DESC)
    WHERE state IN ('provisioning', 'active', 'idle', 'suspended');
  CREATE INDEX sessions_tenant ON sessions (tenant, state, created_at DESC, id DESC);
  CREATE INDEX sessions_owner ON sessions (tenant, owner, state, created_at DESC, id DESC);
  CREATE INDEX sessions_scope ON sessions (tenant, scope_type, scope_id, created_at DESC);

  CREATE TABLE scopes (
    tenant TEXT NOT NULL,
    scope_type TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    claimed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, scope_type, scope_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE scope_members (
    tenant TEXT NOT NULL,
    scope_type TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    principal TEXT NOT NULL,
    PRIMARY KEY (tenant, scope_type, scope_id, principal)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE idempotency (
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    session_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal, route, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_session ON idempotency (session_id);
  CREATE INDEX idempotency_expires ON idempotency (expires_at);

  CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    install_id TEXT NOT NULL UNIQUE,
    instance_id TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    public_url TEXT NOT NULL,
    control_url TEXT NOT NULL,
    relay TEXT NOT NULL,
    provider TEXT NOT NULL,
    version TEXT NOT NULL,
    clock_drift_ms INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    actor_type TEXT NOT NULL,
    role TEXT NOT NULL,
    rights TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
  ) STRICT;
  CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at DESC);

  CREATE TABLE brokers (
    id TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT;

  -- Rows are never deleted, so ids only rise without AUTOINCREMENT and its page to write.
  CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    ts INTEGER NOT NULL,
    request_id TEXT,
    event TEXT NOT NULL,
    tenant TEXT,
    caller TEXT,
    actor TEXT,
    thread_id TEXT,
    session_id TEXT,
    sandbox_id TEXT,
    outcome TEXT NOT NULL,
    code TEXT,
    ip TEXT,
    token_hash TEXT
  ) STRICT;
  CREATE INDEX audit_session ON audit (session_id) WHERE session_id IS NOT NULL;
  CREATE INDEX audit_thread ON audit (thread_id) WHERE thread_id IS NOT NULL;
  -- [C-72] Append-only, also for whoever opens the file by hand.
  CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
  CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
  `,
  `
  -- The last thousand of each session; they go with its tombstone.
  CREATE TABLE session_events (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    ts INTEGER NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (session_id, id)
  ) STRICT, WITHOUT ROWID;

  -- How far the journal of each instance of an agent is stored.
  CREATE TABLE agent_journals (
    agent_id TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, instance_id)
  ) STRICT, WITHOUT ROWID;

  -- What an event tells beyond the columns, as JSON: the jti and the route of an access, the end of a process.
  ALTER TABLE audit ADD COLUMN data TEXT;
  `,
  `
  -- [C-55] An ended session whose sandbox, when it goes, leaves its workspace to the scope.
  ALTER TABLE sessions ADD COLUMN keep_workspace INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX sessions_kept ON sessions (tenant, scope_type, scope_id, created_at DESC) WHERE keep_workspace = 1;

  -- Which agents hold the workspace of a scope; an unwanted one stays listed until its agent has removed it.
  CREATE TABLE workspaces (
    id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    held_at INTEGER NOT NULL,
    unwanted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (id, agent_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX workspaces_unwanted ON workspaces (agent_id) WHERE unwanted = 1;
  `,
  `
  -- Where brokers reach an agent's dataplane to relay; an agent of before is reached where its clients reach it.
  ALTER TABLE agents ADD COLUMN dataplane_url TEXT NOT NULL DEFAULT '';
  UPDATE agents SET dataplane_url = public_url;
  `,
  `
  -- [4-75, C-57] What actors may do, where that is not simply everything that policy allows.
  CREATE TABLE grants (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    actor TEXT NOT NULL,
    principal TEXT NOT NULL,
    granted_at INTEGER NOT NULL,
    capabilities TEXT,
    carried TEXT NOT NULL,
    narrowed_to TEXT,
    narrowed_at INTEGER,
    PRIMARY KEY (session_id, actor)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX grants_narrowed ON grants (narrowed_at) WHERE narrowed_at IS NOT NULL;

  ALTER TABLE api_keys ADD COLUMN capabilities TEXT;
  ALTER TABLE sessions ADD COLUMN provider_preference TEXT;
  `,
  `
  -- Each filter of the audit log has its index: a rare event must not be looked for in all the others.
  CREATE INDEX audit_event ON audit (event);
  CREATE INDEX audit_caller ON audit (caller) WHERE caller IS NOT NULL;
  CREATE INDEX audit_tenant ON audit (tenant) WHERE tenant IS NOT NULL;
  CREATE INDEX audit_ts ON audit (ts);
  `,
  `
  -- [0-34] What of its host a session's sandbox sees, as JSON; empty for nothing.
  ALTER TABLE sessions ADD COLUMN mounts TEXT NOT NULL DEFAULT '';
  `,
  `
  -- What the refusal carried by which a session failed, as JSON.
  ALTER TABLE sessions ADD COLUMN reason_details TEXT;
  `,
  `
  -- Empty but for the moment in which its pages are made: their place is what is kept for a full disk.
  CREATE TABLE reserve (pages BLOB NOT NULL) STRICT;
  `,
  `
  -- [C-50] The key that an install has registered with; null for those of before.
  ALTER TABLE agents ADD COLUMN public_key TEXT;
  `,
  `
  -- A client has named the session's image: where its agent is lost or full, only one with images may have it.
  ALTER TABLE sessions ADD COLUMN needs_image INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- [2.4] The last events of ended sessions, as JSON, while their agents may have more to tell: until the journal of this instance is
  -- stored up to this number (null before the agent has answered), at the longest until due_at.
  CREATE TABLE session_endings (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    agent_id TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    events TEXT NOT NULL,
    instance_id TEXT,
    journal_seq INTEGER
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- [C-50] Tokens by which installs register, beside the configured one.
  CREATE TABLE enroll_tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    one_use INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at INTEGER,
    used_by TEXT,
    revoked_at INTEGER
  ) STRICT, WITHOUT ROWID;
  ALTER TABLE agents ADD COLUMN enroll_token_id TEXT;
  `,
  `
  -- [C-50] Nonces that registrations have to sign, until they are taken; good at every broker.
  CREATE TABLE agent_challenges (nonce TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX agent_challenges_until ON agent_challenges (until);
  `,
  `
  -- How many live sessions there are of each tenant, label and agent, so that no creation counts them. Rows of none are not kept.
  CREATE TABLE live_by_tenant (tenant TEXT PRIMARY KEY, live INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE live_by_agent (agent_id TEXT PRIMARY KEY, live INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE live_by_label (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    live INTEGER NOT NULL,
    PRIMARY KEY (tenant, key, value)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO live_by_tenant SELECT tenant, count(*) FROM sessions
    WHERE state IN ('provisioning', 'active', 'idle', 'suspended') GROUP BY tenant;
  INSERT INTO live_by_agent SELECT agent_id, count(*) FROM sessions
    WHERE state IN ('provisioning', 'active', 'idle', 'suspended') GROUP BY agent_id;
  INSERT INTO live_by_label SELECT s.tenant, l.key, l.value, count(*) FROM sessions s, json_each(s.labels) l
    WHERE s.state IN ('provisioning', 'active', 'idle', 'suspended') GROUP BY s.tenant, l.key, l.value;

  CREATE TRIGGER sessions_begin AFTER INSERT ON sessions WHEN NEW.state IN ('provisioning', 'active', 'idle', 'suspended') BEGIN
    INSERT INTO live_by_tenant VALUES (NEW.tenant, 1) ON CONFLICT DO UPDATE SET live = live + 1;
    INSERT INTO live_by_agent VALUES (NEW.agent_id, 1) ON CONFLICT DO UPDATE SET live = live + 1;
    INSERT INTO live_by_label SELECT NEW.tenant, key, value, 1 FROM json_each(NEW.labels) WHERE true
      ON CONFLICT DO UPDATE SET live = live + 1;
  END;
  -- An ended session never lives again, and its row is deleted later than it ends.
  CREATE TRIGGER sessions_end AFTER UPDATE OF state ON sessions
    WHEN OLD.state IN ('provisioning', 'active', 'idle', 'suspended')
      AND NEW.state NOT IN ('provisioning', 'active', 'idle', 'suspended') BEGIN
    DELETE FROM live_by_tenant WHERE tenant = OLD.tenant AND live = 1;
    UPDATE live_by_tenant SET live = live - 1 WHERE tenant = OLD.tenant;
    DELETE FROM live_by_agent WHERE agent_id = OLD.agent_id AND live = 1;
    UPDATE live_by_agent SET live = live - 1 WHERE agent_id = OLD.agent_id;
    DELETE FROM live_by_label WHERE tenant = OLD.tenant AND live = 1
      AND (key, value) IN (SELECT key, value FROM json_each(OLD.labels));
    UPDATE live_by_label SET live = live - 1 WHERE tenant = OLD.tenant
      AND (key, value) IN (SELECT key, value FROM json_each(OLD.labels));
  END;
  CREATE TRIGGER sessions_move AFTER UPDATE OF agent_id ON sessions
    WHEN OLD.agent_id <> NEW.agent_id AND NEW.state IN ('provisioning', 'active', 'idle', 'suspended') BEGIN
    DELETE FROM live_by_agent WHERE agent_id = OLD.agent_id AND live = 1;
    UPDATE live_by_agent SET live = live - 1 WHERE agent_id = OLD.agent_id;
    INSERT INTO live_by_agent VALUES (NEW.agent_id, 1) ON CONFLICT DO UPDATE SET live = live + 1;
  END;
  `,
  `
  -- Sandboxes of the E2B facade (contract 7.3): each is a session. A paused one has no end_at.
  CREATE TABLE e2b_sandboxes (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    session_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    template TEXT NOT NULL,
    metadata TEXT NOT NULL,
    auto_pause INTEGER NOT NULL,
    made_session INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    end_at INTEGER NOT NULL,
    paused INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX e2b_sandboxes_tenant ON e2b_sandboxes (tenant, started_at, id);
  CREATE INDEX e2b_sandboxes_due ON e2b_sandboxes (end_at) WHERE paused = 0;
  -- SHA-256 of an access token, base64url; it is good until its sandbox ends.
  CREATE TABLE e2b_tokens (
    hash TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    made_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX e2b_tokens_sandbox ON e2b_tokens (sandbox_id, made_at);
  `,
  `
  -- The environment variables of whole sandboxes, which facades keep for their clients, as a JSON object. They may be secrets, so that
  -- they end with their session and are in no row that is listed.
  CREATE TABLE session_environments (
    session_id TEXT PRIMARY KEY,
    variables TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER sessions_end_environment AFTER UPDATE OF state ON sessions
    WHEN NEW.state NOT IN ('provisioning', 'active', 'idle', 'suspended') BEGIN
    DELETE FROM session_environments WHERE session_id = NEW.id;
  END;
  `,
  `
  -- The last failures of requests to the Box surface, of each tenant. The newest is never deleted, so that ids only rise.
  CREATE TABLE box_errors (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    query_id TEXT
  ) STRICT;
  CREATE INDEX box_errors_tenant ON box_errors (tenant, id);
  `,
  `
  -- Since when a report of all sandboxes is wanted of an agent, which else reports what has changed.
  ALTER TABLE agents ADD COLUMN whole_wanted_at INTEGER;
  `,
  `
  -- What an agent has for sandboxes and what they ask for, as it said last, as JSON.
  ALTER TABLE agents ADD COLUMN capacity TEXT;
  `,
  `
  -- Ports of sandboxes that have a host of their own, which go with their session, and codes by which browsers come in, as SHA-256,
  -- base64url.
  CREATE TABLE exposed_ports (
    label TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    session_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    port INTEGER NOT NULL,
    access TEXT NOT NULL,
    host TEXT NOT NULL,
    embed_origins TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    UNIQUE (session_id, port)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE preview_codes (
    hash TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX preview_codes_expires_at ON preview_codes (expires_at);
  CREATE TRIGGER sessions_end_ports AFTER UPDATE OF state ON sessions
    WHEN NEW.state NOT IN ('provisioning', 'active', 'idle', 'suspended') BEGIN
    DELETE FROM exposed_ports WHERE session_id = NEW.id;
  END;
  `,
  `
  -- Values that rules of egress inject, of each tenant; \`sealed\` is the value of this version under the key-encryption key \`kek_id\`.
  CREATE TABLE secrets (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    description TEXT,
    sealed TEXT NOT NULL,
    kek_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
  ) STRICT;
  `,
  `
  -- Where programs of a session may connect to, as JSON, in the place of its profile's policy; and the network that its sandbox has.
  ALTER TABLE sessions ADD COLUMN egress TEXT;
  ALTER TABLE sessions ADD COLUMN network TEXT;
  `,
  `
  -- Of previews of an agent that has one of its own.
  ALTER TABLE agents ADD COLUMN preview_domain TEXT;
  `,
]
