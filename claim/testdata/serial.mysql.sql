-- serial.turn
UPDATE `sendonce_claims`
SET lease_ms = lease_ms + 1
WHERE token = :token;

-- serial.addTurn
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, 'the turns of a serial strategy', '[]', 0, 0, 0, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6));

-- serial.busy
SELECT 1
FROM `sendonce_claims`
WHERE source = :source LIMIT 1;

-- serial.head
SELECT `id`, `status`, `token`, `attempts`, CASE WHEN `next_attempt` > UTC_TIMESTAMP(6) THEN 0 ELSE 1 END
FROM `receivers`
WHERE `status` IN (0, 1, 2)
ORDER BY priority DESC, id, `id`
 LIMIT 1;

-- take.pick
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL OR `next_attempt` <= UTC_TIMESTAMP(6))
ORDER BY `id`;

-- take.mark
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL OR `next_attempt` <= UTC_TIMESTAMP(6));

-- take.readBack
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- take.insert
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL (:lease * 1000) MICROSECOND);

