-- keep.extend
UPDATE "sendonce_claims"
SET until = now() + (lease_ms * 1000)::bigint * interval '1 microsecond'
WHERE token = ANY (:tokens::text::bigint[]);

-- keep.live
SELECT token
FROM "sendonce_claims"
WHERE token = ANY (:tokens::text::bigint[]);

-- keep.end
DELETE
FROM "sendonce_claims"
WHERE token = ANY (:tokens::text::bigint[]);

-- keep.begin
UPDATE "receivers"
SET "status" = 2
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 1
  AND EXISTS (SELECT 1
FROM "sendonce_claims"
WHERE token = :token::bigint
  AND until > now());

-- keep.sending
SELECT "id"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 2
  AND EXISTS (SELECT 1
FROM "sendonce_claims"
WHERE token = :token::bigint
  AND until > now());

-- settle.done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = now()
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (1, 2);

-- settle.donePairs
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = now()
WHERE "id" = ANY (:keys::text::bigint[])
  AND (("id", "token") IN (SELECT *
FROM unnest(:keys::text::bigint[], :tokens::text::bigint[]))) IS TRUE
  AND "status" IN (1, 2);

-- settle.lateDone
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = now()
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" IN (0, 4, 6);

-- settle.release
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - 1, "next_attempt" = now()
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 1;

-- settle.releasePairs
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - 1, "next_attempt" = now()
WHERE "id" = ANY (:keys::text::bigint[])
  AND (("id", "token") IN (SELECT *
FROM unnest(:keys::text::bigint[], :tokens::text::bigint[]))) IS TRUE
  AND "status" = 1;

-- settle.look
SELECT "id", "status", "token"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[]);

-- settle.opinions, retry, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, retry, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, retry, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint WHEN :k1::bigint THEN :after1::bigint WHEN :k2::bigint THEN :after2::bigint WHEN :k3::bigint THEN :after3::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, retry, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 0, "token" = 0, "attempts" = "attempts" - CASE "id" WHEN :k0::bigint THEN :free0::bigint WHEN :k1::bigint THEN :free1::bigint WHEN :k2::bigint THEN :free2::bigint WHEN :k3::bigint THEN :free3::bigint END, "next_attempt" = now() + (CASE "id" WHEN :k0::bigint THEN :after0::bigint WHEN :k1::bigint THEN :after1::bigint WHEN :k2::bigint THEN :after2::bigint WHEN :k3::bigint THEN :after3::bigint END)::bigint * interval '1 microsecond', "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, dead, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 4, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, dead, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 4, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, dead, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 4, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, dead, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 4, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, skipped, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 5, "next_attempt" = NULL
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, skipped, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 5, "next_attempt" = NULL, "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, skipped, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 5, "next_attempt" = NULL
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, skipped, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 5, "next_attempt" = NULL, "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, unknown, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 6, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, unknown, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 6, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, unknown, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 6, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond')
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- settle.opinions, unknown, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 6, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", now() + (0 - CASE "id" WHEN :k0::bigint THEN :doubt0::bigint WHEN :k1::bigint THEN :doubt1::bigint WHEN :k2::bigint THEN :doubt2::bigint WHEN :k3::bigint THEN :doubt3::bigint END)::bigint * interval '1 microsecond'), "last_error" = CASE "id" WHEN :k0::bigint THEN :reason0::text WHEN :k1::bigint THEN :reason1::text WHEN :k2::bigint THEN :reason2::text WHEN :k3::bigint THEN :reason3::text END
WHERE (("id" = :k0::bigint
  AND "token" = :t0::bigint) OR ("id" = :k1::bigint
  AND "token" = :t1::bigint) OR ("id" = :k2::bigint
  AND "token" = :t2::bigint) OR ("id" = :k3::bigint
  AND "token" = :t3::bigint))
  AND "status" IN (1, 2);

-- reap.claims
SELECT token, owner, mode, alone, lease_ms, (extract(epoch FROM until) * 1000000)::bigint, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM since) * 1000000)::bigint, CASE WHEN until <= now() THEN 1 ELSE 0 END
FROM "sendonce_claims"
WHERE source = :source::text;

-- reap.claimKeys
SELECT row_keys
FROM "sendonce_claims"
WHERE token = :token::bigint;

-- reap.takeClaim
DELETE
FROM "sendonce_claims"
WHERE token = :token::bigint
  AND (extract(epoch FROM until) * 1000000)::bigint = :until::bigint;

-- reap.deadAlone
UPDATE "receivers"
SET "status" = 4, "next_attempt" = NULL, "last_error" = :reason::text, "doubt_since" = COALESCE("doubt_since", now() + (0 - :doubt::bigint)::bigint * interval '1 microsecond')
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 1
  AND "attempts" > :last::bigint;

-- reap.sendingUnknown
UPDATE "receivers"
SET "status" = 6, "next_attempt" = NULL, "last_error" = :reason::text, "doubt_since" = COALESCE("doubt_since", now() + (0 - :doubt::bigint)::bigint * interval '1 microsecond')
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 2;

-- reap.claimedBack
UPDATE "receivers"
SET "status" = 0, "next_attempt" = now(), "attempts" = CASE WHEN "attempts" > :last::bigint THEN :last::bigint ELSE "attempts" END, "last_error" = :reason::text, "doubt_since" = COALESCE("doubt_since", now() + (0 - :doubt::bigint)::bigint * interval '1 microsecond')
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 1;

-- reap.claimedBackUncharged
UPDATE "receivers"
SET "status" = 0, "next_attempt" = now(), "attempts" = "attempts" - 1, "last_error" = :reason::text
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 1;

-- patrol.windows, from the start
SELECT w."id"
FROM (SELECT "id"
FROM "receivers"
WHERE 1 = 1
ORDER BY "id" LIMIT 50000) w
ORDER BY w."id" DESC LIMIT 1;

-- patrol.windows, behind a key
SELECT w."id"
FROM (SELECT "id"
FROM "receivers"
WHERE 1 = 1
  AND "id" > :from::bigint
ORDER BY "id" LIMIT 50000) w
ORDER BY w."id" DESC LIMIT 1;

-- patrol.orphans, from the start
SELECT "id", "token", "status"
FROM "receivers"
WHERE "id" <= :to::bigint
  AND "status" IN (1, 2)
  AND "token" NOT IN (SELECT token
FROM "sendonce_claims")
ORDER BY "id" LIMIT 1000;

-- patrol.orphans, behind a key
SELECT "id", "token", "status"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND "status" IN (1, 2)
  AND "token" NOT IN (SELECT token
FROM "sendonce_claims")
ORDER BY "id" LIMIT 1000;

-- patrol.hasClaim
SELECT 1
FROM "sendonce_claims"
WHERE token = :token::bigint;

-- patrol.makeDue
UPDATE "receivers"
SET "next_attempt" = now()
WHERE "id" = ANY (:keys::text::bigint[])
  AND "status" = 0
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END;

-- counts
SELECT "status", COUNT(*)
FROM "receivers"
WHERE 1 = 1
GROUP BY "status";

-- walker.windows, {lower:false upper:false rows:2000}
SELECT w."id"
FROM (SELECT "id"
FROM "receivers"
WHERE 1 = 1
ORDER BY "id" LIMIT 2000) w
ORDER BY w."id" DESC LIMIT 1;

-- walker.windows, {lower:false upper:true rows:2000}
SELECT w."id"
FROM (SELECT "id"
FROM "receivers"
WHERE 1 = 1
  AND "id" <= :to::bigint
ORDER BY "id" LIMIT 2000) w
ORDER BY w."id" DESC LIMIT 1;

-- walker.windows, {lower:true upper:false rows:2000}
SELECT w."id"
FROM (SELECT "id"
FROM "receivers"
WHERE 1 = 1
  AND "id" > :from::bigint
ORDER BY "id" LIMIT 2000) w
ORDER BY w."id" DESC LIMIT 1;

-- walker.windows, {lower:true upper:true rows:2000}
SELECT w."id"
FROM (SELECT "id"
FROM "receivers"
WHERE 1 = 1
  AND "id" > :from::bigint
  AND "id" <= :to::bigint
ORDER BY "id" LIMIT 2000) w
ORDER BY w."id" DESC LIMIT 1;

-- walker.span
SELECT (SELECT MIN("id")
FROM "receivers"), (SELECT MAX("id")
FROM "receivers");

-- walker.probe
SELECT "status", CASE WHEN "next_attempt" IS NULL THEN 1 ELSE 0 END
FROM "receivers"
WHERE "id" > :from::bigint
ORDER BY "id" LIMIT 100;

-- walker.highest
SELECT "id"
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
ORDER BY "id" DESC LIMIT 1;

-- walker.after, from the start
SELECT "id"
FROM "receivers"
WHERE "id" <= :to::bigint
ORDER BY "id" LIMIT 1 OFFSET :skip;

-- walker.after, behind a key
SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
ORDER BY "id" LIMIT 1 OFFSET :skip;

-- rounds.strays, from the start
SELECT "id"
FROM "receivers"
WHERE "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 1000;

-- rounds.strays, behind a key
SELECT "id"
FROM "receivers"
WHERE "id" > :from::bigint
  AND "id" <= :to::bigint
  AND CASE WHEN "status" = 0 THEN true ELSE false END
  AND CASE WHEN "next_attempt" IS NULL THEN true ELSE false END
ORDER BY "id" LIMIT 1000;

-- due.otherMode
SELECT owner
FROM "sendonce_claims"
WHERE source = :source::text
  AND mode <> :mode::bigint LIMIT 1;

-- due.claimOf
SELECT row_keys, alone
FROM "sendonce_claims"
WHERE token = :token::bigint;

-- due.rowsOf
SELECT "id" AS c0, "attempts" AS c1, "generation" AS c2, (extract(epoch FROM now()) * 1000000)::bigint - (extract(epoch FROM "doubt_since") * 1000000)::bigint AS c3, "address" AS c4, "name" AS c5
FROM "receivers"
WHERE "id" = ANY (:keys::text::bigint[])
  AND "token" = :token::bigint
  AND "status" = 1;

