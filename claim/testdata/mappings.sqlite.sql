-------- plain

-- claim
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
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (1, 2);

-------- full

-- claim
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
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds'), "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 END) / 1000000.0, 3) || ' seconds')), "last_error" = CASE "id" WHEN :k0 THEN :reason0 END
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (1, 2);

-------- schema

-- claim
UPDATE "app"."receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "app"."receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 0
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0;

-- done
UPDATE "app"."receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (1, 2);

-- retry
UPDATE "app"."receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (1, 2);

-------- dotted

-- claim
UPDATE "app"."mail.receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "app"."mail.receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 0
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0;

-- done
UPDATE "app"."mail.receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (1, 2);

-- retry
UPDATE "app"."mail.receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (1, 2);

-------- reserved

-- claim
UPDATE "order"
SET "case" = 1, "group" = :token, "limit" = "limit" + 1, "when" = NULL
WHERE "select" IN (SELECT "select"
FROM "order"
WHERE "select" > :from
  AND "select" <= :to
  AND +"case" = 0
  AND +"when" IS NULL
ORDER BY "select" LIMIT 100)
  AND +"case" = 0
  AND +"when" IS NULL
RETURNING "select" AS c0;

-- done
UPDATE "order"
SET "case" = 3, "when" = NULL
WHERE "select" IN (SELECT value
FROM json_each(:keys))
  AND "group" = :token
  AND "case" IN (1, 2);

-- retry
UPDATE "order"
SET "case" = 0, "group" = 0, "limit" = "limit" - CASE "select" WHEN :k0 THEN :free0 END, "when" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "select" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("select" = :k0
  AND "group" = :t0))
  AND "case" IN (1, 2);

-------- mixedcase

-- claim
UPDATE "MailQueue"
SET "State" = 1, "Token" = :token, "Tries" = "Tries" + 1, "NextTry" = NULL
WHERE "MailId" IN (SELECT "MailId"
FROM "MailQueue"
WHERE "MailId" > :from
  AND "MailId" <= :to
  AND +"State" = 0
  AND +"NextTry" IS NULL
ORDER BY "MailId" LIMIT 100)
  AND +"State" = 0
  AND +"NextTry" IS NULL
RETURNING "MailId" AS c0;

-- done
UPDATE "MailQueue"
SET "State" = 3, "NextTry" = NULL, "SentAt" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE "MailId" IN (SELECT value
FROM json_each(:keys))
  AND "Token" = :token
  AND "State" IN (1, 2);

-- retry
UPDATE "MailQueue"
SET "State" = 0, "Token" = 0, "Tries" = "Tries" - CASE "MailId" WHEN :k0 THEN :free0 END, "NextTry" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "MailId" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("MailId" = :k0
  AND "Token" = :t0))
  AND "State" IN (1, 2);

-------- hostile

-- claim
UPDATE "a""b`c; DROP TABLE x --"
SET "s`t" = 1, "t:oken" = :token, "att?empts" = "att?empts" + 1, "next_attempt" = NULL
WHERE "i""d" IN (SELECT "i""d"
FROM "a""b`c; DROP TABLE x --"
WHERE "i""d" > :from
  AND "i""d" <= :to
  AND +"s`t" = 0
  AND +"next_attempt" IS NULL
ORDER BY "i""d" LIMIT 100)
  AND +"s`t" = 0
  AND +"next_attempt" IS NULL
RETURNING "i""d" AS c0;

-- done
UPDATE "a""b`c; DROP TABLE x --"
SET "s`t" = 3, "next_attempt" = NULL
WHERE "i""d" IN (SELECT value
FROM json_each(:keys))
  AND "t:oken" = :token
  AND "s`t" IN (1, 2);

-- retry
UPDATE "a""b`c; DROP TABLE x --"
SET "s`t" = 0, "t:oken" = 0, "att?empts" = "att?empts" - CASE "i""d" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "i""d" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("i""d" = :k0
  AND "t:oken" = :t0))
  AND "s`t" IN (1, 2);

-------- strings

-- claim
UPDATE "receivers"
SET "status" = 'claimed', "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 'pending'
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 'pending'
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 'done', "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN ('claimed', 'sending');

-- retry
UPDATE "receivers"
SET "status" = 'pending', "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN ('claimed', 'sending');

-------- oddstrings

-- claim
UPDATE "receivers"
SET "status" = 'it''s', "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 'wartend'
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 'wartend'
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 'qu"ote', "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN ('it''s', 'back\slash');

-- retry
UPDATE "receivers"
SET "status" = 'wartend', "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN ('it''s', 'back\slash');

-------- integers

-- claim
UPDATE "receivers"
SET "status" = 20, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 10
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 10
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 40, "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (20, 30);

-- retry
UPDATE "receivers"
SET "status" = 10, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (20, 30);

-------- bigintegers

-- claim
UPDATE "receivers"
SET "status" = 2, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 1
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100)
  AND +"status" = 1
  AND +"next_attempt" IS NULL
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 4, "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (2, 3);

-- retry
UPDATE "receivers"
SET "status" = 1, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (2, 3);

-------- where

-- claim
UPDATE "receivers"
SET "status" = 1, "token" = :token, "attempts" = "attempts" + 1, "next_attempt" = NULL
WHERE "id" IN (SELECT "id"
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
  AND (campaign_id = :u0
  AND name <> 'who?' -- a comment
)
ORDER BY "id" LIMIT 100)
  AND +"status" = 0
  AND +"next_attempt" IS NULL
  AND (campaign_id = :u0
  AND name <> 'who?' -- a comment
)
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (1, 2);

-------- order

-- look
SELECT "id", "token", "attempts", 0
FROM "receivers"
WHERE +"status" = 0
  AND "token" = 0
  AND ("next_attempt" IS NULL OR "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
ORDER BY priority DESC, id
 LIMIT 100;

-- claim
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
RETURNING "id" AS c0;

-- done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (1, 2);

-------- deletedone

-- claim
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
RETURNING "id" AS c0;

-- done
DELETE
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND "token" = :token
  AND "status" IN (1, 2);

-- retry
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds')
WHERE (("id" = :k0
  AND "token" = :t0))
  AND "status" IN (1, 2);

