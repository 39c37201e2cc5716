-- serial.turn
UPDATE "sendonce_claims"
SET lease_ms = lease_ms + 1
WHERE token = :token::bigint;

-- serial.addTurn
INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token::bigint, :source::text, 'the turns of a serial strategy', '[]', 0, 0, 0, now(), now());

-- serial.busy
SELECT 1
FROM "sendonce_claims"
WHERE source = :source::text LIMIT 1;

-- serial.head
SELECT "id", "status", "token", "attempts", CASE WHEN "next_attempt" > now() THEN 0 ELSE 1 END
FROM "receivers"
WHERE "status" IN (0, 1, 2)
ORDER BY priority DESC, id, "id"
 LIMIT 1;

-- take.mark
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND ("next_attempt" IS NULL OR "next_attempt" <= now())
ORDER BY "id"))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND ("next_attempt" IS NULL OR "next_attempt" <= now())
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

