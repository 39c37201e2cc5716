-------- plain

-- claim
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
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-------- full

-- claim
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
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = now()
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-------- schema

-- claim
WITH c AS (UPDATE "app"."receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "app"."receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0),
l AS (INSERT INTO "app"."sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "app"."receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- retry
UPDATE "app"."receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-------- dotted

-- claim
WITH c AS (UPDATE "app"."mail.receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "app"."mail.receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0),
l AS (INSERT INTO "app"."sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "app"."mail.receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- retry
UPDATE "app"."mail.receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-------- reserved

-- claim
WITH c AS (UPDATE "order"
SET "case" = 1, "group" = :token::bigint, "limit" = "limit" + 1, "when" = NULL
WHERE "select" = ANY (ARRAY(SELECT "select"
FROM "order"
WHERE "select" > :from::bigint
  AND "select" <= :to::bigint
  AND CASE WHEN "case" = 0 THEN true ELSE false END
  AND CASE WHEN "when" IS NULL THEN true ELSE false END
ORDER BY "select" LIMIT 100))
  AND CASE WHEN "case" = 0 THEN true ELSE false END
  AND CASE WHEN "when" IS NULL THEN true ELSE false END
RETURNING "select" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "order"
SET "case" = 3, "when" = NULL
WHERE "select" = ANY (:keys::text::bigint[])
  AND "group" = :token::bigint
  AND "case" IN (1, 2);

-- retry
UPDATE "order"
SET "case" = 0, "group" = 0, "limit" = "limit" - CASE "select" WHEN :k0::bigint THEN :free0::bigint END, "when" = now() + (CASE "select" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("select" = :k0::bigint
  AND "group" = :t0::bigint))
  AND "case" IN (1, 2);

-------- mixedcase

-- claim
WITH c AS (UPDATE "MailQueue"
SET "State" = 1, "Token" = :token::bigint, "Tries" = "Tries" + 1, "NextTry" = NULL
WHERE "MailId" = ANY (ARRAY(SELECT "MailId"
FROM "MailQueue"
WHERE "MailId" > :from::bigint
  AND "MailId" <= :to::bigint
  AND CASE WHEN "State" = 0 THEN true ELSE false END
  AND CASE WHEN "NextTry" IS NULL THEN true ELSE false END
ORDER BY "MailId" LIMIT 100))
  AND CASE WHEN "State" = 0 THEN true ELSE false END
  AND CASE WHEN "NextTry" IS NULL THEN true ELSE false END
RETURNING "MailId" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "MailQueue"
SET "State" = 3, "NextTry" = NULL, "SentAt" = now()
WHERE "MailId" = ANY (:keys::text::bigint[])
  AND "Token" = :token::bigint
  AND "State" IN (1, 2);

-- retry
UPDATE "MailQueue"
SET "State" = 0, "Token" = 0, "Tries" = "Tries" - CASE "MailId" WHEN :k0::bigint THEN :free0::bigint END, "NextTry" = now() + (CASE "MailId" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("MailId" = :k0::bigint
  AND "Token" = :t0::bigint))
  AND "State" IN (1, 2);

-------- hostile

-- claim
WITH c AS (UPDATE "a""b`c; DROP TABLE x --"
SET "s`t" = 1, "t:oken" = :token::bigint, "att?empts" = "att?empts" + 1, "next_attempt" = NULL
WHERE "i""d" = ANY (ARRAY(SELECT "i""d"
FROM "a""b`c; DROP TABLE x --"
WHERE "i""d" > :from::bigint
  AND "i""d" <= :to::bigint
  AND CASE WHEN "s`t" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "i""d" LIMIT 100))
  AND CASE WHEN "s`t" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "i""d" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "a""b`c; DROP TABLE x --"
SET "s`t" = 3, "next_attempt" = NULL
WHERE "i""d" = ANY (:keys::text::bigint[])
  AND "t:oken" = :token::bigint
  AND "s`t" IN (1, 2);

-- retry
UPDATE "a""b`c; DROP TABLE x --"
SET "s`t" = 0, "t:oken" = 0, "att?empts" = "att?empts" - CASE "i""d" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "i""d" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("i""d" = :k0::bigint
  AND "t:oken" = :t0::bigint))
  AND "s`t" IN (1, 2);

-------- strings

-- claim
WITH c AS (UPDATE "receivers"
SET "status" = 'claimed', "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 'pending' THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 'pending' THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 'done', "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN ('claimed', 'sending');

-- retry
UPDATE "receivers"
SET "status" = 'pending', "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN ('claimed', 'sending');

-------- oddstrings

-- claim
WITH c AS (UPDATE "receivers"
SET "status" = 'it''s', "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 'wartend' THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 'wartend' THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 'qu"ote', "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN ('it''s', E'back\\slash');

-- retry
UPDATE "receivers"
SET "status" = 'wartend', "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN ('it''s', E'back\\slash');

-------- integers

-- claim
WITH c AS (UPDATE "receivers"
SET "status" = 20, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 10 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 10 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 40, "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (20, 30);

-- retry
UPDATE "receivers"
SET "status" = 10, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (20, 30);

-------- bigintegers

-- claim
WITH c AS (UPDATE "receivers"
SET "status" = 2, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 1 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 1 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 4, "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (2, 3);

-- retry
UPDATE "receivers"
SET "status" = 1, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (2, 3);

-------- where

-- claim
WITH c AS (UPDATE "receivers"
SET "status" = 1, "token" = :token::bigint, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" = ANY (ARRAY(SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
  AND (campaign_id = :u0
  AND name <> 'who?' -- a comment
)
ORDER BY "id" LIMIT 100))
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
  AND (campaign_id = :u0
  AND name <> 'who?' -- a comment
)
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-------- order

-- look
SELECT "id", "token", "attempts", 0
FROM "receivers"
WHERE CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= now())
ORDER BY priority DESC, id
 LIMIT 100;

-- claim
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
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-------- deletedone

-- claim
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
RETURNING "id" AS c0),
l AS (INSERT INTO "sendonce_claims" (token, source, owner, row_keys, mode, alone, lease_ms, since, until) SELECT :token::bigint, :source::text, :owner::text, json_agg(c0)::text, :mode::bigint, :alone::bigint, :lease::bigint, now(), now() + (:lease * 1000)::bigint * interval '1 microsecond'
FROM c HAVING count(*) > 0) SELECT *
FROM c;

-- done
DELETE
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond'
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

