-- read
SELECT "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5
FROM "receivers"
WHERE "id" > :from
  AND "id" <= :to
  AND +"status" = 0
  AND +"next_attempt" IS NULL
ORDER BY "id" LIMIT 100;

-- read
SELECT "id" AS c0, "attempts" AS c1, "generation" AS c2, CAST(round((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000) AS INTEGER) * 1000 - CAST(round((julianday("doubt_since") - 2440587.5) * 86400000) AS INTEGER) * 1000 AS c3, "address" AS c4, "name" AS c5
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND +"status" = 0
  AND "token" = 0
  AND "next_attempt" <= strftime('%Y-%m-%d %H:%M:%f', 'now')
ORDER BY "id";

-- settle.done
UPDATE "receivers"
SET "status" = 3, "next_attempt" = NULL, "done_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'), "attempts" = "attempts" + 1
WHERE "id" IN (SELECT value
FROM json_each(:keys))
  AND ("id", "attempts") IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]')
FROM json_each(:pairs))
  AND "status" = 0;

-- settle.look
SELECT "id", "status", "attempts"
FROM "receivers"
WHERE "id" IN (SELECT value
FROM json_each(:keys));

-- settle.opinions, retry, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds'), "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 END) / 1000000.0, 3) || ' seconds'))
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, retry, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 END) / 1000000.0, 3) || ' seconds'), "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 END) / 1000000.0, 3) || ' seconds')), "last_error" = CASE "id" WHEN :k0 THEN :reason0 END
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, retry, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 WHEN :k1 THEN :after1 WHEN :k2 THEN :after2 WHEN :k3 THEN :after3 END) / 1000000.0, 3) || ' seconds'), "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) / 1000000.0, 3) || ' seconds'))
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

-- settle.opinions, retry, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 0, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = strftime('%Y-%m-%d %H:%M:%f', 'now', round((CASE "id" WHEN :k0 THEN :after0 WHEN :k1 THEN :after1 WHEN :k2 THEN :after2 WHEN :k3 THEN :after3 END) / 1000000.0, 3) || ' seconds'), "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) / 1000000.0, 3) || ' seconds')), "last_error" = CASE "id" WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

-- settle.opinions, dead, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 END) / 1000000.0, 3) || ' seconds'))
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, dead, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 END) / 1000000.0, 3) || ' seconds')), "last_error" = CASE "id" WHEN :k0 THEN :reason0 END
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, dead, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) / 1000000.0, 3) || ' seconds'))
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

-- settle.opinions, dead, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 4, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) / 1000000.0, 3) || ' seconds')), "last_error" = CASE "id" WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

-- settle.opinions, skipped, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = NULL
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, skipped, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = NULL, "last_error" = CASE "id" WHEN :k0 THEN :reason0 END
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, skipped, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = NULL
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

-- settle.opinions, skipped, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 5, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = NULL, "last_error" = CASE "id" WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

-- settle.opinions, unknown, 1 at once, with reason false
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 END) / 1000000.0, 3) || ' seconds'))
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, unknown, 1 at once, with reason true
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 END) / 1000000.0, 3) || ' seconds')), "last_error" = CASE "id" WHEN :k0 THEN :reason0 END
WHERE (("id" = :k0
  AND "attempts" = :t0))
  AND "status" = 0;

-- settle.opinions, unknown, 4 at once, with reason false
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) / 1000000.0, 3) || ' seconds'))
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

-- settle.opinions, unknown, 4 at once, with reason true
UPDATE "receivers"
SET "status" = 6, "attempts" = "attempts" + 1 - CASE "id" WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, "next_attempt" = NULL, "doubt_since" = COALESCE("doubt_since", strftime('%Y-%m-%d %H:%M:%f', 'now', round((0 - CASE "id" WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) / 1000000.0, 3) || ' seconds')), "last_error" = CASE "id" WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE (("id" = :k0
  AND "attempts" = :t0) OR ("id" = :k1
  AND "attempts" = :t1) OR ("id" = :k2
  AND "attempts" = :t2) OR ("id" = :k3
  AND "attempts" = :t3))
  AND "status" = 0;

