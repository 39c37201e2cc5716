-------- plain

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- retry
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-------- full

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL, `done_at` = UTC_TIMESTAMP(6)
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- retry
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND, `doubt_since` = COALESCE(`doubt_since`, UTC_TIMESTAMP(6) + INTERVAL (0 - CASE `id` WHEN :k0 THEN :doubt0 END) MICROSECOND), `last_error` = CASE `id` WHEN :k0 THEN :reason0 END
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-------- schema

-- pick
SELECT `id`
FROM `app`.`receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `app`.`receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `app`.`receivers`
SET `status` = 3, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- retry
UPDATE `app`.`receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-------- dotted

-- pick
SELECT `id`
FROM `app`.`mail.receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `app`.`mail.receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `app`.`mail.receivers`
SET `status` = 3, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- retry
UPDATE `app`.`mail.receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-------- reserved

-- pick
SELECT `select`
FROM `order`
WHERE `select` > :from
  AND `select` <= :to
  AND (`case` = 0) IS TRUE
  AND (`when` IS NULL) IS TRUE
ORDER BY `select` LIMIT 100;

-- claim
UPDATE `order`
SET `case` = 1, `group` = :token, `limit` = `limit` + 1, `when` = NULL
WHERE `select` IN (:keys)
  AND (`case` = 0) IS TRUE
  AND (`when` IS NULL) IS TRUE;

-- done
UPDATE `order`
SET `case` = 3, `when` = NULL
WHERE `select` IN (:keys)
  AND `group` = :token
  AND `case` IN (1, 2);

-- retry
UPDATE `order`
SET `case` = 0, `group` = 0, `limit` = `limit` - CASE `select` WHEN :k0 THEN :free0 END, `when` = UTC_TIMESTAMP(6) + INTERVAL (CASE `select` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`select` = :k0
  AND `group` = :t0))
  AND `case` IN (1, 2);

-------- mixedcase

-- pick
SELECT `MailId`
FROM `MailQueue`
WHERE `MailId` > :from
  AND `MailId` <= :to
  AND (`State` = 0) IS TRUE
  AND (`NextTry` IS NULL) IS TRUE
ORDER BY `MailId` LIMIT 100;

-- claim
UPDATE `MailQueue`
SET `State` = 1, `Token` = :token, `Tries` = `Tries` + 1, `NextTry` = NULL
WHERE `MailId` IN (:keys)
  AND (`State` = 0) IS TRUE
  AND (`NextTry` IS NULL) IS TRUE;

-- done
UPDATE `MailQueue`
SET `State` = 3, `NextTry` = NULL, `SentAt` = UTC_TIMESTAMP(6)
WHERE `MailId` IN (:keys)
  AND `Token` = :token
  AND `State` IN (1, 2);

-- retry
UPDATE `MailQueue`
SET `State` = 0, `Token` = 0, `Tries` = `Tries` - CASE `MailId` WHEN :k0 THEN :free0 END, `NextTry` = UTC_TIMESTAMP(6) + INTERVAL (CASE `MailId` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`MailId` = :k0
  AND `Token` = :t0))
  AND `State` IN (1, 2);

-------- hostile

-- pick
SELECT `i"d`
FROM `a"b``c; DROP TABLE x --`
WHERE `i"d` > :from
  AND `i"d` <= :to
  AND (`s``t` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `i"d` LIMIT 100;

-- claim
UPDATE `a"b``c; DROP TABLE x --`
SET `s``t` = 1, `t:oken` = :token, `att?empts` = `att?empts` + 1, `next_attempt` = NULL
WHERE `i"d` IN (:keys)
  AND (`s``t` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `a"b``c; DROP TABLE x --`
SET `s``t` = 3, `next_attempt` = NULL
WHERE `i"d` IN (:keys)
  AND `t:oken` = :token
  AND `s``t` IN (1, 2);

-- retry
UPDATE `a"b``c; DROP TABLE x --`
SET `s``t` = 0, `t:oken` = 0, `att?empts` = `att?empts` - CASE `i"d` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `i"d` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`i"d` = :k0
  AND `t:oken` = :t0))
  AND `s``t` IN (1, 2);

-------- strings

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 'pending') IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = 'claimed', `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 'pending') IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `receivers`
SET `status` = 'done', `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN ('claimed', 'sending');

-- retry
UPDATE `receivers`
SET `status` = 'pending', `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN ('claimed', 'sending');

-------- oddstrings

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 'wartend') IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = _utf8mb4 X'69742773', `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 'wartend') IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `receivers`
SET `status` = _utf8mb4 X'7175226f7465', `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (_utf8mb4 X'69742773', _utf8mb4 X'6261636b5c736c617368');

-- retry
UPDATE `receivers`
SET `status` = 'wartend', `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (_utf8mb4 X'69742773', _utf8mb4 X'6261636b5c736c617368');

-------- integers

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 10) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = 20, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 10) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `receivers`
SET `status` = 40, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (20, 30);

-- retry
UPDATE `receivers`
SET `status` = 10, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (20, 30);

-------- bigintegers

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 1) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = 2, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 1) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
UPDATE `receivers`
SET `status` = 4, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (2, 3);

-- retry
UPDATE `receivers`
SET `status` = 1, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (2, 3);

-------- where

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
  AND (campaign_id = :u0
  AND name <> 'who?' -- a comment
)
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
  AND (campaign_id = :u0
  AND name <> 'who?' -- a comment
);

-- done
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- retry
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-------- order

-- look
SELECT `id`, `token`, `attempts`, 0
FROM `receivers`
WHERE (`status` = 0) IS TRUE
  AND `token` = 0
  AND (`next_attempt` IS NULL OR `next_attempt` <= UTC_TIMESTAMP(6))
ORDER BY priority DESC, id
 LIMIT 100;

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` = 0
  AND (`next_attempt` IS NULL OR `next_attempt` <= UTC_TIMESTAMP(6))
ORDER BY `id`;

-- claim
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND `token` = 0
  AND (`next_attempt` IS NULL OR `next_attempt` <= UTC_TIMESTAMP(6));

-- done
UPDATE `receivers`
SET `status` = 3, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- retry
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

-------- deletedone

-- pick
SELECT `id`
FROM `receivers`
WHERE `id` > :from
  AND `id` <= :to
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE
ORDER BY `id` LIMIT 100;

-- claim
UPDATE `receivers`
SET `status` = 1, `token` = :token, `attempts` = `attempts` + 1, `next_attempt` = NULL
WHERE `id` IN (:keys)
  AND (`status` = 0) IS TRUE
  AND (`next_attempt` IS NULL) IS TRUE;

-- done
DELETE
FROM `receivers`
WHERE `id` IN (:keys)
  AND `token` = :token
  AND `status` IN (1, 2);

-- retry
UPDATE `receivers`
SET `status` = 0, `token` = 0, `attempts` = `attempts` - CASE `id` WHEN :k0 THEN :free0 END, `next_attempt` = UTC_TIMESTAMP(6) + INTERVAL (CASE `id` WHEN :k0 THEN :after0 END) MICROSECOND
WHERE ((`id` = :k0
  AND `token` = :t0))
  AND `status` IN (1, 2);

