-- look whether a window has fresh rows, from its start
SELECT 1
FROM "receivers"
WHERE "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 1;

-- look whether a window has fresh rows
SELECT 1
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 1;

-- look for rows that come back
SELECT "id", "token", "attempts", CAST(round((julianday("next_attempt") - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM "receivers"
WHERE "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
  AND +"status" = 0
ORDER BY "next_attempt" LIMIT 100;

-- look for rows that come back, above the low mark
SELECT "id", "token", "attempts", CAST(round((julianday("next_attempt") - 2440587.5) * 86400000) AS INTEGER) * 1000
FROM "receivers"
WHERE "next_attempt" >= strftime('%Y-%m-%d %H:%M:%f', (:low) / 1000000.0, 'unixepoch')
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
  AND +"status" = 0
ORDER BY "next_attempt" LIMIT 100;

-- claim fresh rows from the start of a window
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 0
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5;

-- record the claim of fresh rows from the start of a window
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', round((:lease * 1000) / 1000000.0, 3) || ' seconds'));

-- claim fresh rows
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 0
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5;

-- record the claim of fresh rows
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', round((:lease * 1000) / 1000000.0, 3) || ' seconds'));

-- claim rows by the user's order
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND +"status" = 0
  AND "token" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
ORDER BY "id")
  AND +"status" = 0
  AND "token" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5;

-- record the claim of rows by the user's order
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', round((:lease * 1000) / 1000000.0, 3) || ' seconds'));

-- claim rows that come back
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND +"status" = 0
  AND "token" = 0
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
ORDER BY "id")
  AND +"status" = 0
  AND "token" = 0
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5;

-- record the claim of rows that come back
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', round((:lease * 1000) / 1000000.0, 3) || ' seconds'));

-- claim suspects
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND +"status" = 0
  AND "token" <> 0
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
  AND "attempts" < :last
ORDER BY "id")
  AND +"status" = 0
  AND "token" <> 0
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
  AND "attempts" < :last
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5;

-- record the claim of suspects
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', round((:lease * 1000) / 1000000.0, 3) || ' seconds'));

-- claim a suspect on its last attempt
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND +"status" = 0
  AND "token" <> 0
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
  AND "attempts" >= :last
ORDER BY "id")
  AND +"status" = 0
  AND "token" <> 0
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
  AND "attempts" >= :last
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5;

-- record the claim of a suspect on its last attempt
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', round((:lease * 1000) / 1000000.0, 3) || ' seconds'));

