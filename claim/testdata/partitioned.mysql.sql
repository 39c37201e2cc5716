-- look whether a window has fresh rows, from its start
SELECT 1
FROM `receivers`
WHERE `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id` LIMIT 1;

-- look whether a window has fresh rows
SELECT 1
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id` LIMIT 1;

-- look for rows that come back
SELECT `id`, `token`, `attempts`, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `next_attempt`)
FROM `receivers`
WHERE `next_attempt` <= UTC_TIMESTAMP(6)
  AND (`status` = 0) IS TRUE
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `next_attempt` LIMIT 100;

-- look for rows that come back, above the low mark
SELECT `id`, `token`, `attempts`, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `next_attempt`)
FROM `receivers`
WHERE `next_attempt` >= CAST('1970-01-01' AS DATETIME(6)) + INTERVAL (:low) MICROSECOND
  AND `next_attempt` <= UTC_TIMESTAMP(6)
  AND (`status` = 0) IS TRUE
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `next_attempt` LIMIT 100;

-- pick fresh rows from the start of a window
SELECT `id`
FROM `receivers`
WHERE `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id` LIMIT 100;

-- claim fresh rows from the start of a window
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- read back fresh rows from the start of a window
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- record the claim of fresh rows from the start of a window
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL (:lease * 1000) MICROSECOND);

-- pick fresh rows
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id` LIMIT 100;

-- claim fresh rows
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- read back fresh rows
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- record the claim of fresh rows
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL (:lease * 1000) MICROSECOND);

-- pick rows by the user's order
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` = 0
  AND (`next_attempt` IS NULL OR `next_attempt` <= UTC_TIMESTAMP(6))
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id`;

-- claim rows by the user's order
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` = 0
  AND (`next_attempt` IS NULL OR `next_attempt` <= UTC_TIMESTAMP(6));

-- read back rows by the user's order
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- record the claim of rows by the user's order
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL (:lease * 1000) MICROSECOND);

-- pick rows that come back
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` = 0
  AND `next_attempt` <= UTC_TIMESTAMP(6)
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id`;

-- claim rows that come back
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` = 0
  AND `next_attempt` <= UTC_TIMESTAMP(6);

-- read back rows that come back
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- record the claim of rows that come back
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL (:lease * 1000) MICROSECOND);

-- pick suspects
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` <> 0
  AND `next_attempt` <= UTC_TIMESTAMP(6)
  AND `attempts` < :last
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id`;

-- claim suspects
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` <> 0
  AND `next_attempt` <= UTC_TIMESTAMP(6)
  AND `attempts` < :last;

-- read back suspects
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- record the claim of suspects
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL (:lease * 1000) MICROSECOND);

-- pick a suspect on its last attempt
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` <> 0
  AND `next_attempt` <= UTC_TIMESTAMP(6)
  AND `attempts` >= :last
  AND ((`id` % 4 + 4) % 4) IN (1, 3)
ORDER BY `id`;

-- claim a suspect on its last attempt
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` <> 0
  AND `next_attempt` <= UTC_TIMESTAMP(6)
  AND `attempts` >= :last;

-- read back a suspect on its last attempt
SELECT `id` AS c0, `attempts` AS c1, `generation` AS c2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `doubt_since`) AS c3, `address` AS c4, `name` AS c5
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` = 1;

-- record the claim of a suspect on its last attempt
INSERT INTO `sendonce_claims` (token, source, owner, row_keys, mode, alone, lease_ms, since, until)
VALUES (:token, :source, :owner, :list, :mode, :alone, :lease, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL (:lease * 1000) MICROSECOND);

