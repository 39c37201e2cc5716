-- plain
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- full
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
ALTER TABLE `receivers` ADD COLUMN `done_at` datetime(6);
ALTER TABLE `receivers` ADD COLUMN `last_error` text;
ALTER TABLE `receivers` ADD COLUMN `doubt_since` datetime(6);
ALTER TABLE `receivers` ADD COLUMN `generation` int NOT NULL DEFAULT 0;
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- schema
CREATE TABLE IF NOT EXISTS `app`.`sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `app`.`receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `app`.`receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `app`.`receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `app`.`receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `app`.`receivers` (`next_attempt`);

-- dotted
CREATE TABLE IF NOT EXISTS `app`.`sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `app`.`mail.receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `app`.`mail.receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `app`.`mail.receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `app`.`mail.receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `mail.receivers_sendonce_due` ON `app`.`mail.receivers` (`next_attempt`);

-- reserved
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `order` ADD COLUMN `case` smallint NOT NULL DEFAULT 0;
ALTER TABLE `order` ADD COLUMN `group` bigint NOT NULL DEFAULT 0;
ALTER TABLE `order` ADD COLUMN `limit` int NOT NULL DEFAULT 0;
ALTER TABLE `order` ADD COLUMN `when` datetime(6);
CREATE INDEX `order_sendonce_due` ON `order` (`when`);

-- mixedcase
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `MailQueue` ADD COLUMN `State` smallint NOT NULL DEFAULT 0;
ALTER TABLE `MailQueue` ADD COLUMN `Token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `MailQueue` ADD COLUMN `Tries` int NOT NULL DEFAULT 0;
ALTER TABLE `MailQueue` ADD COLUMN `NextTry` datetime(6);
ALTER TABLE `MailQueue` ADD COLUMN `SentAt` datetime(6);
CREATE INDEX `MailQueue_sendonce_due` ON `MailQueue` (`NextTry`);

-- hostile
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `a"b``c; DROP TABLE x --` ADD COLUMN `s``t` smallint NOT NULL DEFAULT 0;
ALTER TABLE `a"b``c; DROP TABLE x --` ADD COLUMN `t:oken` bigint NOT NULL DEFAULT 0;
ALTER TABLE `a"b``c; DROP TABLE x --` ADD COLUMN `att?empts` int NOT NULL DEFAULT 0;
ALTER TABLE `a"b``c; DROP TABLE x --` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `a"b``c; DROP TABLE x --_sendonce_due` ON `a"b``c; DROP TABLE x --` (`next_attempt`);

-- strings
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` varchar(20) NOT NULL DEFAULT 'pending';
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- oddstrings
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` varchar(20) NOT NULL DEFAULT 'wartend';
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- integers
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 10;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- bigintegers
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` int NOT NULL DEFAULT 1;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- where
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- order
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- deletedone
CREATE TABLE IF NOT EXISTS `sendonce_claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);

-- another claims table
CREATE TABLE IF NOT EXISTS `ops`.`claims` (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys longtext NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since datetime(6) NOT NULL, until datetime(6) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
ALTER TABLE `receivers` ADD COLUMN `status` smallint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `token` bigint NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `attempts` int NOT NULL DEFAULT 0;
ALTER TABLE `receivers` ADD COLUMN `next_attempt` datetime(6);
CREATE INDEX `receivers_sendonce_due` ON `receivers` (`next_attempt`);
