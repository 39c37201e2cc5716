-- serial.turn
UPDATE "sendonce_claims"
SET lease_ms = lease_ms + 1
WHERE token = :token;

-- serial.addTurn
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, 'the turns of a serial strategy', '[]', 0, 0, 0, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now'));

-- serial.busy
SELECT 1
FROM "sendonce_claims"
WHERE source = :source LIMIT 1;

-- serial.head
SELECT "id", "status", "token", "attempts", CASE WHEN "next_attempt" > strftime('%Y-%m-%d %H:%M:%f', 'now') THEN 0 ELSE 1 END
FROM "receivers"
WHERE "status" IN (0, 1, 2)
ORDER BY priority DESC, id, "id"
 LIMIT 1;

-- take.mark
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND +"status" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
ORDER BY "id")
  AND +"status" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5;

-- take.insert
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', round((:lease * 1000) / 1000000.0, 3) || ' seconds'));

