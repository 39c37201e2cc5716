-- read
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- read
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` = 0
  AND `next_attempt` <= UTC_TIMESTAMP(6)
ORDER BY `id`;

-- settle.done
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL, `done_at` = UTC_TIMESTAMP(6), `attempts` = `attempts` + 1
WHERE `id` IN (:keys)
  AND (`id`, `attempts`) IN (:pairs)
  AND `status` = 0;

-- settle.look
SELECT `id`, `status`, `attempts`
FROM `receivers`
WHERE `id` IN (:keys);

-- settle.opinions, retry, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 0, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, retry, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 0, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, retry, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 0, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 WHEN :k1 THEN :after1 WHEN :k2 THEN :after2 WHEN :k3 THEN :after3 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

-- settle.opinions, retry, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 0, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 WHEN :k1 THEN :after1 WHEN :k2 THEN :after2 WHEN :k3 THEN :after3 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

-- settle.opinions, dead, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 4, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, dead, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 4, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, dead, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 4, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

-- settle.opinions, dead, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 4, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

-- settle.opinions, skipped, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 5, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = NULL
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, skipped, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 5, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = NULL, `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, skipped, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 5, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = NULL
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

-- settle.opinions, skipped, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 5, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = NULL, `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

-- settle.opinions, unknown, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 6, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, unknown, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 6, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `attempts` = :t0))
  AND `status` = 0;

-- settle.opinions, unknown, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 6, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

-- settle.opinions, unknown, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 6, `attempts` = `attempts` + 1 - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `attempts` = :t0) OR (`id` = :k1
  AND `attempts` = :t1) OR (`id` = :k2
  AND `attempts` = :t2) OR (`id` = :k3
  AND `attempts` = :t3))
  AND `status` = 0;

