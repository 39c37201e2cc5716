-- look whether a window has fresh rows, from its start
SELECT 1
FROM "receivers"
WHERE "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 1;

-- look whether a window has fresh rows
SELECT 1
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 1;

-- look for rows that come back
SELECT "id", "token", "attempts", (extract(epoch FROM "next_attempt") * 1000000)::bigint
FROM "receivers"
WHERE "next_attempt" <= now()
  AND CASE WHEN "status" = 0 THEN true ELSE false END
ORDER BY "next_attempt" LIMIT 100;

-- look for rows that come back, above the low mark
SELECT "id", "token", "attempts", (extract(epoch FROM "next_attempt") * 1000000)::bigint
FROM "receivers"
WHERE "next_attempt" >= timestamptz 'epoch' + :low::bigint * interval '1 microsecond'
  AND "next_attempt" <= now()
  AND CASE WHEN "status" = 0 THEN true ELSE false END
ORDER BY "next_attempt" LIMIT 100;

-- claim fresh rows from the start of a window
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- claim fresh rows
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- claim rows by the user's order
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= now())
ORDER BY "id"))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= now())
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- claim rows that come back
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" = 0
  AND "next_attempt" <= now()
ORDER BY "id"))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" = 0
  AND "next_attempt" <= now()
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- claim suspects
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" <> 0
  AND "next_attempt" <= now()
  AND "attempts" < :last::bigint
ORDER BY "id"))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" <> 0
  AND "next_attempt" <= now()
  AND "attempts" < :last::bigint
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- claim a suspect on its last attempt
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" <> 0
  AND "next_attempt" <= now()
  AND "attempts" >= :last::bigint
ORDER BY "id"))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" <> 0
  AND "next_attempt" <= now()
  AND "attempts" >= :last::bigint
RETURNING "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

