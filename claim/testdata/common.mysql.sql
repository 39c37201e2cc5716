-- keep.extend
UPDATE `sendonce_claims`
SET until = UTC_TIMESTAMP(6) + INTERVAL (lease_ms * 1000) MICROSECOND
WHERE token IN (:tokens);

-- keep.live
SELECT token
FROM `sendonce_claims`
WHERE token IN (:tokens);

-- keep.end
DELETE
FROM `sendonce_claims`
WHERE token IN (:tokens);

-- keep.begin
UPDATE `receivers`
SET `status` = 2
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1
  AND EXISTS (SELECT 1
FROM `sendonce_claims`
WHERE token = :token
  AND until > UTC_TIMESTAMP(6));

-- keep.sending
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 2
  AND EXISTS (SELECT 1
FROM `sendonce_claims`
WHERE token = :token
  AND until > UTC_TIMESTAMP(6));

-- settle.done
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL, `done_at` = UTC_TIMESTAMP(6)
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- settle.donePairs
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL, `done_at` = UTC_TIMESTAMP(6)
WHERE `id` IN (:keys)
  AND (`id`, `token`) IN (:pairs)
  AND `status` IN (1, 2);

-- settle.lateDone
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL, `done_at` = UTC_TIMESTAMP(6)
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (0, 4, 6);

-- settle.release
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - 1, `next_attempt` = UTC_TIMESTAMP(6)
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- settle.releasePairs
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - 1, `next_attempt` = UTC_TIMESTAMP(6)
WHERE `id` IN (:keys)
  AND (`id`, `token`) IN (:pairs)
  AND `status` = 1;

-- settle.look
SELECT `id`, `status`, `token`
FROM `receivers`
WHERE `id` IN (:keys);

-- settle.opinions, retry, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, retry, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, retry, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 WHEN :k1 THEN :after1 WHEN :k2 THEN :after2 WHEN :k3 THEN :after3 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- settle.opinions, retry, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 WHEN :k1 THEN :free1 WHEN :k2 THEN :free2 WHEN :k3 THEN :free3 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 WHEN :k1 THEN :after1 WHEN :k2 THEN :after2 WHEN :k3 THEN :after3 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- settle.opinions, dead, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 4, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, dead, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 4, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, dead, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 4, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- settle.opinions, dead, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 4, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- settle.opinions, skipped, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 5, `next_attempt` = NULL
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, skipped, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 5, `next_attempt` = NULL, `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, skipped, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 5, `next_attempt` = NULL
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- settle.opinions, skipped, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 5, `next_attempt` = NULL, `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- settle.opinions, unknown, 1 at once, with reason false
UPDATE `receivers`
SET `status` = 6, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, unknown, 1 at once, with reason true
UPDATE `receivers`
SET `status` = 6, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-- settle.opinions, unknown, 4 at once, with reason false
UPDATE `receivers`
SET `status` = 6, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND)
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- settle.opinions, unknown, 4 at once, with reason true
UPDATE `receivers`
SET `status` = 6, `next_attempt` = NULL, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 WHEN :k1 THEN :doubt1 WHEN :k2 THEN :doubt2 WHEN :k3 THEN :doubt3 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 WHEN :k1 THEN :reason1 WHEN :k2 THEN :reason2 WHEN :k3 THEN :reason3 END
WHERE ((`id` = :k0
  AND `token` = :t0) OR (`id` = :k1
  AND `token` = :t1) OR (`id` = :k2
  AND `token` = :t2) OR (`id` = :k3
  AND `token` = :t3))
  AND `status` IN (1, 2);

-- reap.claims
SELECT token, owner, mode, alone, lease_ms, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', until), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', since), CASE WHEN until <= UTC_TIMESTAMP(6) THEN 1 ELSE 0 END
FROM `sendonce_claims`
WHERE source = :source;

-- reap.claimKeys
SELECT row_keys
FROM `sendonce_claims`
WHERE token = :token;

-- reap.takeClaim
DELETE
FROM `sendonce_claims`
WHERE token = :token
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', until) = :until;

-- reap.deadAlone
UPDATE `receivers`
SET `status` = 4, `next_attempt` = NULL, `last_error` = :reason, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - :doubt) MICROSECOND)
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1
  AND `attempts` > :last;

-- reap.sendingUnknown
UPDATE `receivers`
SET `status` = 6, `next_attempt` = NULL, `last_error` = :reason, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - :doubt) MICROSECOND)
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 2;

-- reap.claimedBack
UPDATE `receivers`
SET `status` = 0, `next_attempt` = UTC_TIMESTAMP(6), `attempts` = CASE WHEN `attempts` > :last THEN :last ELSE `attempts` END, `last_error` = :reason, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - :doubt) MICROSECOND)
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- reap.claimedBackUncharged
UPDATE `receivers`
SET `status` = 0, `next_attempt` = UTC_TIMESTAMP(6), `attempts` = `attempts` - 1, `last_error` = :reason
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- patrol.windows, from the start
SELECT w.`id`
FROM (SELECT `id`
FROM `receivers`
WHERE 1 = 1
ORDER BY `id` LIMIT 50000) w
ORDER BY w.`id` DESC LIMIT 1;

-- patrol.windows, behind a key
SELECT w.`id`
FROM (SELECT `id`
FROM `receivers`
WHERE 1 = 1
  AND `id` > :from
ORDER BY `id` LIMIT 50000) w
ORDER BY w.`id` DESC LIMIT 1;

-- patrol.orphans, from the start
SELECT `id`, `token`, `status`
FROM `receivers`
WHERE `id` <= :to
  AND `status` IN (1, 2)
  AND `token` NOT IN (SELECT token
FROM `sendonce_claims`)
ORDER BY `id` LIMIT 1000;

-- patrol.orphans, behind a key
SELECT `id`, `token`, `status`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND `status` IN (1, 2)
  AND `token` NOT IN (SELECT token
FROM `sendonce_claims`)
ORDER BY `id` LIMIT 1000;

-- patrol.hasClaim
SELECT 1
FROM `sendonce_claims`
WHERE token = :token;

-- patrol.makeDue
UPDATE `receivers`
SET `next_attempt` = UTC_TIMESTAMP(6)
WHERE `id` IN (:keys)
  AND `status` = 0
  AND (`next_attempt` IS NULL) IS TRUE;

-- counts
SELECT `status`, COUNT(*)
FROM `receivers`
WHERE 1 = 1
GROUP BY `status`;

-- walker.windows, {lower:false upper:false rows:2000}
SELECT w.`id`
FROM (SELECT `id`
FROM `receivers`
WHERE 1 = 1
ORDER BY `id` LIMIT 2000) w
ORDER BY w.`id` DESC LIMIT 1;

-- walker.windows, {lower:false upper:true rows:2000}
SELECT w.`id`
FROM (SELECT `id`
FROM `receivers`
WHERE 1 = 1
  AND `id` <= :to
ORDER BY `id` LIMIT 2000) w
ORDER BY w.`id` DESC LIMIT 1;

-- walker.windows, {lower:true upper:false rows:2000}
SELECT w.`id`
FROM (SELECT `id`
FROM `receivers`
WHERE 1 = 1
  AND `id` > :from
ORDER BY `id` LIMIT 2000) w
ORDER BY w.`id` DESC LIMIT 1;

-- walker.windows, {lower:true upper:true rows:2000}
SELECT w.`id`
FROM (SELECT `id`
FROM `receivers`
WHERE 1 = 1
  AND `id` > :from
  AND `id` <= :to
ORDER BY `id` LIMIT 2000) w
ORDER BY w.`id` DESC LIMIT 1;

-- walker.span
SELECT (SELECT MIN(`id`)
FROM `receivers`), (SELECT MAX(`id`)
FROM `receivers`);

-- walker.probe
SELECT `status`, CASE WHEN `next_attempt` IS NULL THEN 1 ELSE 0 END
FROM `receivers`
WHERE `id` > :from
ORDER BY `id` LIMIT 100;

-- walker.highest
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
ORDER BY `id` DESC LIMIT 1;

-- walker.after, from the start
SELECT `id`
FROM `receivers`
WHERE `id` <= :to
ORDER BY `id` LIMIT 1 OFFSET :skip;

-- walker.after, behind a key
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
ORDER BY `id` LIMIT 1 OFFSET :skip;

-- rounds.strays, from the start
SELECT `id`
FROM `receivers`
WHERE `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 1000;

-- rounds.strays, behind a key
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 1000;

-- due.otherMode
SELECT owner
FROM `sendonce_claims`
WHERE source = :source
  AND mode <> :mode LIMIT 1;

-- due.claimOf
SELECT row_keys, alone
FROM `sendonce_claims`
WHERE token = :token;

-- due.rowsOf
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

