-- Deliveries that are not done: one row until the receiver took the event or it is given up.

CREATE TABLE rvq.due_deliveries (
    id               bigint           NOT NULL PRIMARY KEY,
    due_at           timestamptz      NOT NULL,
    lease_expires_at timestamptz,
    lease_token      uuid,
    claimed_at       timestamptz,
    attempt          smallint         NOT NULL DEFAULT 0,
    tries            smallint         NOT NULL DEFAULT 0,
    queue            text COLLATE "C" NOT NULL,
    host             text COLLATE "C" NOT NULL,
    url              text             NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX due_deliveries_due ON rvq.due_deliveries (host, due_at, id) WHERE lease_token IS NULL;
CREATE INDEX due_deliveries_lease ON rvq.due_deliveries (host, lease_expires_at) WHERE lease_token IS NOT NULL;
COMMENT ON TABLE rvq.due_deliveries IS 'A pending delivery, under its event''s id: when it is due, or who is sending it and until when.';
COMMENT ON COLUMN rvq.due_deliveries.attempt IS 'Attempts begun, over the whole life of the delivery: the number in the ledger.';
COMMENT ON COLUMN rvq.due_deliveries.tries IS 'Attempts begun since it was last made pending: the position in the schedule.';

CREATE TABLE rvq.webhook_hosts (
    host         text COLLATE "C" NOT NULL PRIMARY KEY,
    failures     integer          NOT NULL DEFAULT 0,
    broken_until timestamptz      NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
COMMENT ON TABLE rvq.webhook_hosts IS 'Receivers by host: the breaker. While broken, its deliveries wait and spend no attempts.';
