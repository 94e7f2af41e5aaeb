/**
 * Numbered migrations; `schema_version` has how many have run. A migration that has shipped is never edited.
 *
 * Tables and columns are those of SQLite, so that a row of one is a row of the other: times in milliseconds since 1970, flags 0 or 1,
 * JSON as text. Text compares as bytes (`COLLATE "C"`) where it is ordered or compared by position.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE profiles (
    hash text PRIMARY KEY,
    json text NOT NULL
  );

  -- Room in each page, and no index over what \`ensure\` moves: its update stays in the row's page and touches no index.
  -- Profiles are never deleted, so that profile_hash needs no foreign key and no creation locks its profile.
  CREATE TABLE sessions (
    id text COLLATE "C" PRIMARY KEY,
    tenant text NOT NULL,
    scope_type text NOT NULL CHECK (scope_type IN ('thread', 'workspace', 'assistant', 'deployment')),
    scope_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('provisioning', 'active', 'idle', 'suspended', 'terminated', 'failed')),
    reason text,
    owner text NOT NULL,
    profile_hash text NOT NULL,
    labels text NOT NULL,
    relay text NOT NULL,
    shape text NOT NULL,
    created_by text NOT NULL,
    created_at bigint NOT NULL,
    hard_expires_at bigint NOT NULL,
    lease_expires_at bigint NOT NULL,
    last_activity_at bigint NOT NULL,
    busy smallint NOT NULL DEFAULT 0,
    due_at bigint NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    agent_id text NOT NULL,
    broker_id text,
    fence bigint NOT NULL DEFAULT 1,
    provision_deadline bigint,
    sandbox_id text,
    provider text,
    isolation text,
    generation bigint NOT NULL DEFAULT 0,
    activated_at bigint,
    suspend_mode text,
    suspended_at bigint,
    ended_at bigint,
    keep_workspace smallint NOT NULL DEFAULT 0,
    provider_preference text,
    mounts text NOT NULL DEFAULT '',
    reason_details text,
    needs_image smallint NOT NULL DEFAULT 0,
    -- The id of its last event: raised in the row, so that two writers never take the same one.
    event_seq bigint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 70);

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
  CREATE INDEX sessions_kept ON sessions (tenant, scope_type, scope_id, created_at DESC) WHERE keep_workspace = 1;

  CREATE TABLE scopes (
    tenant text NOT NULL,
    scope_type text NOT NULL,
    scope_id text NOT NULL,
    owner text NOT NULL,
    claimed_at bigint NOT NULL,
    PRIMARY KEY (tenant, scope_type, scope_id)
  );
  CREATE TABLE scope_members (
    tenant text NOT NULL,
    scope_type text NOT NULL,
    scope_id text NOT NULL,
    principal text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, scope_type, scope_id, principal)
  );

  CREATE TABLE idempotency (
    tenant text NOT NULL,
    principal text NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    body_hash text NOT NULL,
    session_id text NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (tenant, principal, route, key)
  );
  CREATE INDEX idempotency_session ON idempotency (session_id);
  CREATE INDEX idempotency_expires ON idempotency (expires_at);

  CREATE TABLE agents (
    id text COLLATE "C" PRIMARY KEY,
    install_id text NOT NULL UNIQUE,
    instance_id text NOT NULL,
    token_hash text NOT NULL,
    public_url text NOT NULL,
    control_url text NOT NULL,
    relay text NOT NULL,
    provider text NOT NULL,
    version text NOT NULL,
    clock_drift_ms bigint NOT NULL,
    registered_at bigint NOT NULL,
    last_seen_at bigint NOT NULL,
    dataplane_url text NOT NULL DEFAULT '',
    -- [C-50] The key that an install has registered with.
    public_key text,
    enroll_token_id text
  ) WITH (fillfactor = 70);

  -- [C-50] Tokens by which installs register, beside the configured one.
  CREATE TABLE enroll_tokens (
    id text COLLATE "C" PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    name text NOT NULL,
    one_use smallint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    used_at bigint,
    used_by text,
    revoked_at bigint
  );

  -- [C-50] Nonces that registrations have to sign, until they are taken; good at every broker.
  CREATE TABLE agent_challenges (nonce text PRIMARY KEY, until bigint NOT NULL);
  CREATE INDEX agent_challenges_until ON agent_challenges (until);

  CREATE TABLE api_keys (
    id text COLLATE "C" PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    name text NOT NULL,
    tenant text NOT NULL,
    principal text NOT NULL,
    actor_type text NOT NULL,
    role text NOT NULL,
    rights text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    capabilities text
  );
  CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at DESC);

  CREATE TABLE brokers (
    id text COLLATE "C" PRIMARY KEY,
    pid bigint NOT NULL,
    heartbeat_at bigint NOT NULL
  );

  CREATE TABLE settings (
    key text PRIMARY KEY,
    value text NOT NULL
  );

  CREATE TABLE audit (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    ts bigint NOT NULL,
    request_id text,
    event text NOT NULL,
    tenant text,
    caller text,
    actor text,
    thread_id text,
    session_id text,
    sandbox_id text,
    outcome text NOT NULL,
    code text,
    ip text,
    token_hash text,
    -- What an event tells beyond the columns, as JSON: the jti and the route of an access, the end of a process.
    data text
  );
  CREATE INDEX audit_session ON audit (session_id, id) WHERE session_id IS NOT NULL;
  CREATE INDEX audit_thread ON audit (thread_id, id) WHERE thread_id IS NOT NULL;
  CREATE INDEX audit_event ON audit (event, id);
  CREATE INDEX audit_caller ON audit (caller, id) WHERE caller IS NOT NULL;
  CREATE INDEX audit_tenant ON audit (tenant, id) WHERE tenant IS NOT NULL;
  CREATE INDEX audit_ts ON audit (ts, id);
  -- [C-72] Append-only, also for whoever connects by hand.
  CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$;
  CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

  -- The last thousand of each session; they go with its tombstone.
  CREATE TABLE session_events (
    session_id text COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id bigint NOT NULL,
    ts bigint NOT NULL,
    type text NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (session_id, id)
  );

  -- How far the journal of each instance of an agent is stored.
  CREATE TABLE agent_journals (
    agent_id text NOT NULL,
    instance_id text NOT NULL,
    seq bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (agent_id, instance_id)
  );

  -- Which agents hold the workspace of a scope; an unwanted one stays listed until its agent has removed it.
  CREATE TABLE workspaces (
    id text NOT NULL,
    agent_id text NOT NULL,
    held_at bigint NOT NULL,
    unwanted smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (id, agent_id)
  );
  CREATE INDEX workspaces_unwanted ON workspaces (agent_id) WHERE unwanted = 1;

  -- [4-75, C-57] What actors may do, where that is not simply everything that policy allows.
  CREATE TABLE grants (
    session_id text COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    actor text COLLATE "C" NOT NULL,
    principal text NOT NULL,
    granted_at bigint NOT NULL,
    capabilities text,
    carried text NOT NULL,
    narrowed_to text,
    narrowed_at bigint,
    PRIMARY KEY (session_id, actor)
  );
  CREATE INDEX grants_narrowed ON grants (narrowed_at) WHERE narrowed_at IS NOT NULL;

  -- [2.4] The last events of ended sessions, as JSON, while their agents may have more to tell: until the journal of this instance is
  -- stored up to this number (null before the agent has answered), at the longest until due_at.
  CREATE TABLE session_endings (
    session_id text COLLATE "C" PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    agent_id text NOT NULL,
    due_at bigint NOT NULL,
    events text NOT NULL,
    instance_id text,
    journal_seq bigint
  );

  -- The environment variables of whole sandboxes, which facades keep for their clients, as a JSON object. They may be secrets, so that
  -- they end with their session and are in no row that is listed.
  CREATE TABLE session_environments (
    session_id text COLLATE "C" PRIMARY KEY,
    variables text NOT NULL
  );

  -- Sandboxes of the E2B facade (contract 7.3): each is a session. A paused one has no end_at.
  CREATE TABLE e2b_sandboxes (
    id text COLLATE "C" PRIMARY KEY,
    tenant text NOT NULL,
    principal text NOT NULL,
    session_id text NOT NULL,
    thread_id text NOT NULL,
    template text NOT NULL,
    metadata text NOT NULL,
    auto_pause smallint NOT NULL,
    made_session smallint NOT NULL,
    started_at bigint NOT NULL,
    end_at bigint NOT NULL,
    paused smallint NOT NULL
  );
  CREATE INDEX e2b_sandboxes_tenant ON e2b_sandboxes (tenant, started_at, id);
  CREATE INDEX e2b_sandboxes_session ON e2b_sandboxes (session_id);
  CREATE INDEX e2b_sandboxes_due ON e2b_sandboxes (end_at) WHERE paused = 0;
  -- SHA-256 of an access token, base64url; it is good until its sandbox ends.
  CREATE TABLE e2b_tokens (
    hash text COLLATE "C" PRIMARY KEY,
    sandbox_id text NOT NULL,
    actor text NOT NULL,
    capabilities text NOT NULL,
    made_at bigint NOT NULL
  );
  CREATE INDEX e2b_tokens_sandbox ON e2b_tokens (sandbox_id, made_at);

  -- The keys that tokens are signed with; \`sealed\` is the private part under the key-encryption key \`kek_id\`.
  CREATE TABLE signing_keys (
    kid text COLLATE "C" PRIMARY KEY,
    jwk text NOT NULL,
    active_at bigint NOT NULL,
    created_at bigint NOT NULL,
    withdrawn_at bigint,
    sealed text NOT NULL,
    kek_id text NOT NULL
  );

  -- How many live sessions there are of each tenant and label, so that no creation counts them; triggers keep them, so that nobody
  -- else writes here. Those of an agent are counted: a row of it would make all creations there wait for each other's commit, while
  -- those of a tenant take turns anyway, for its quota.
  CREATE TABLE live_by_tenant (tenant text PRIMARY KEY, live bigint NOT NULL) WITH (fillfactor = 50);
  CREATE TABLE live_by_label (
    tenant text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    live bigint NOT NULL,
    PRIMARY KEY (tenant, key, value)
  ) WITH (fillfactor = 50);

  CREATE FUNCTION sessions_begin() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO live_by_tenant AS t VALUES (NEW.tenant, 1) ON CONFLICT (tenant) DO UPDATE SET live = t.live + 1;
      IF NEW.labels <> '{}' THEN
        INSERT INTO live_by_label AS l SELECT NEW.tenant, key, value, 1 FROM json_each_text(NEW.labels::json) ORDER BY key
          ON CONFLICT (tenant, key, value) DO UPDATE SET live = l.live + 1;
      END IF;
      RETURN NULL;
    END $$;
  CREATE TRIGGER sessions_begin AFTER INSERT ON sessions FOR EACH ROW
    WHEN (NEW.state IN ('provisioning', 'active', 'idle', 'suspended')) EXECUTE FUNCTION sessions_begin();

  -- An ended session never lives again, and its row is deleted later than it ends. The tenant's row is first in both functions, so that
  -- those who change the same labels take turns there.
  CREATE FUNCTION sessions_end() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE live_by_tenant SET live = live - 1 WHERE tenant = OLD.tenant;
      IF OLD.labels <> '{}' THEN
        UPDATE live_by_label SET live = live - 1 WHERE tenant = OLD.tenant
          AND (key, value) IN (SELECT key, value FROM json_each_text(OLD.labels::json));
        DELETE FROM live_by_label WHERE tenant = OLD.tenant AND live <= 0
          AND (key, value) IN (SELECT key, value FROM json_each_text(OLD.labels::json));
      END IF;
      DELETE FROM session_environments WHERE session_id = OLD.id;
      RETURN NULL;
    END $$;
  CREATE TRIGGER sessions_end AFTER UPDATE OF state ON sessions FOR EACH ROW
    WHEN (OLD.state IN ('provisioning', 'active', 'idle', 'suspended')
      AND NEW.state NOT IN ('provisioning', 'active', 'idle', 'suspended')) EXECUTE FUNCTION sessions_end();
  `,
  `
  -- The last failures of requests to the Box surface, of each tenant.
  CREATE TABLE box_errors (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    at bigint NOT NULL,
    type text NOT NULL,
    message text NOT NULL,
    query_id text
  );
  CREATE INDEX box_errors_tenant ON box_errors (tenant, id);
  `,
  `
  -- Since when a report of all sandboxes is wanted of an agent, which else reports what has changed.
  ALTER TABLE agents ADD COLUMN whole_wanted_at bigint;
  `,
  `
  -- What an agent has for sandboxes and what they ask for, as it said last, as JSON.
  ALTER TABLE agents ADD COLUMN capacity text;
  `,
  `
  -- MCP servers that brokers share. Each is run by \`owner\`, a broker, until \`lease_until\` of the database's clock; \`sealed\` is the
  -- definition under the key-encryption key \`kek_id\`. \`info\` and \`session_id\` are what an owner told last, for the other brokers.
  CREATE TABLE mcp_servers (
    name text COLLATE "C" PRIMARY KEY,
    configured smallint NOT NULL,
    ending smallint NOT NULL,
    sealed text NOT NULL,
    kek_id text NOT NULL,
    owner text,
    owner_url text,
    lease_until bigint NOT NULL,
    info text,
    session_id text
  ) WITH (fillfactor = 50);
  `,
  `
  -- Ports of sandboxes that have a host of their own, which go with their session, and codes by which browsers come in, as SHA-256,
  -- base64url.
  CREATE TABLE exposed_ports (
    label text COLLATE "C" PRIMARY KEY,
    tenant text NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    incarnation integer NOT NULL,
    port integer NOT NULL,
    access text NOT NULL,
    host text NOT NULL,
    embed_origins text NOT NULL,
    created_by text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    UNIQUE (session_id, port)
  );
  CREATE TABLE preview_codes (
    hash text COLLATE "C" PRIMARY KEY,
    label text NOT NULL,
    actor text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
  );
  CREATE INDEX preview_codes_expires_at ON preview_codes (expires_at);
  CREATE FUNCTION sessions_end_ports() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM exposed_ports WHERE session_id = OLD.id;
      RETURN NULL;
    END $$;
  CREATE TRIGGER sessions_end_ports AFTER UPDATE OF state ON sessions FOR EACH ROW
    WHEN (OLD.state IN ('provisioning', 'active', 'idle', 'suspended')
      AND NEW.state NOT IN ('provisioning', 'active', 'idle', 'suspended')) EXECUTE FUNCTION sessions_end_ports();
  `,
  `
  -- Values that rules of egress inject, of each tenant; \`sealed\` is the value of this version under the key-encryption key \`kek_id\`.
  CREATE TABLE secrets (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    description text,
    sealed text NOT NULL,
    kek_id text NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (tenant, name)
  );
  `,
  `
  -- Where programs of a session may connect to, as JSON, in the place of its profile's policy; and the network that its sandbox has.
  ALTER TABLE sessions ADD COLUMN egress text;
  ALTER TABLE sessions ADD COLUMN network text;
  `,
  `
  -- Of previews of an agent that has one of its own.
  ALTER TABLE agents ADD COLUMN preview_domain text;
  `,
]
