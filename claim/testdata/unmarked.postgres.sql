-- read
SELECT "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 100;

-- read
SELECT "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND "token" = 0
  AND "next_attempt" <= now()
ORDER BY "id";

-- settle.held
WITH held AS (SELECT 1
FROM "sendonce_locks"
WHERE name = :name::text
  AND token = :token::text
  AND fence = :fence::bigint FOR SHARE) UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = now(), "attempts" = "attempts" + 1
WHERE "id" = ANY (:keys::text::bigint[])
  AND "attempts" = :attempts::bigint
  AND EXISTS (SELECT 1
FROM held)
  AND "status" = 0;

-- settle.heldPairs
WITH held AS (SELECT 1
FROM "sendonce_locks"
WHERE name = :name::text
  AND token = :token::text
  AND fence = :fence::bigint FOR SHARE) UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = now(), "attempts" = "attempts" + 1
WHERE "id" = ANY (:keys::text::bigint[])
  AND (("id", "attempts") IN (SELECT *
FROM unnest(:keys::text::bigint[], :tokens::text::bigint[]))) IS TRUE
  AND EXISTS (SELECT 1
FROM held)
  AND "status" = 0;

-- settle.done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = now(), "attempts" = "attempts" + 1
WHERE "id" = ANY (:keys::text::bigint[])
  AND (("id", "attempts") IN (SELECT *
FROM unnest(:keys::text::bigint[], :tokens::text::bigint[]))) IS TRUE
  AND "status" = 0;

-- settle.look
SELECT "id", "status", "attempts"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[]);

-- settle.opinions, retry, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, retry, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, retry, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint WHEN :k1::bigint THEN :after1::bigint WHEN :k2::bigint THEN :after2::bigint WHEN :k3::bigint THEN :after3::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

-- settle.opinions, retry, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint WHEN :k1::bigint THEN :after1::bigint WHEN :k2::bigint THEN :after2::bigint WHEN :k3::bigint THEN :after3::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

-- settle.opinions, dead, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, dead, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, dead, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

-- settle.opinions, dead, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

-- settle.opinions, skipped, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = NULL
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, skipped, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = NULL, "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, skipped, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = NULL
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

-- settle.opinions, skipped, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = NULL, "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

-- settle.opinions, unknown, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, unknown, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint))
  AND "status" = 0;

-- settle.opinions, unknown, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

-- settle.opinions, unknown, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "attempts" = :t0::bigint) OR ("id" = :k1::bigint
  AND "attempts" = :t1::bigint) OR ("id" = :k2::bigint
  AND "attempts" = :t2::bigint) OR ("id" = :k3::bigint
  AND "attempts" = :t3::bigint))
  AND "status" = 0;

