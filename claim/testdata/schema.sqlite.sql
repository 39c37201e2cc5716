-- plain
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- full
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
ALTER TABLE "receivers" ADD COLUMN "done_at" DATETIME;
ALTER TABLE "receivers" ADD COLUMN "last_error" text;
ALTER TABLE "receivers" ADD COLUMN "doubt_since" DATETIME;
ALTER TABLE "receivers" ADD COLUMN "generation" INTEGER NOT NULL DEFAULT 0;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- schema
CREATE TABLE IF NOT EXISTS "app"."sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "app"."receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "app"."receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "app"."receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "app"."receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "app"."receivers_sendonce_due" ON "receivers" ("next_attempt");

-- dotted
CREATE TABLE IF NOT EXISTS "app"."sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "app"."mail.receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "app"."mail.receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "app"."mail.receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "app"."mail.receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "app"."mail.receivers_sendonce_due" ON "mail.receivers" ("next_attempt");

-- reserved
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "order" ADD COLUMN "case" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "order" ADD COLUMN "group" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "order" ADD COLUMN "limit" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "order" ADD COLUMN "when" DATETIME;
CREATE INDEX "order_sendonce_due" ON "order" ("when");

-- mixedcase
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "MailQueue" ADD COLUMN "State" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "MailQueue" ADD COLUMN "Token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "MailQueue" ADD COLUMN "Tries" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "MailQueue" ADD COLUMN "NextTry" DATETIME;
ALTER TABLE "MailQueue" ADD COLUMN "SentAt" DATETIME;
CREATE INDEX "MailQueue_sendonce_due" ON "MailQueue" ("NextTry");

-- hostile
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "s`t" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "t:oken" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "att?empts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "a""b`c; DROP TABLE x --_sendonce_due" ON "a""b`c; DROP TABLE x --" ("next_attempt");

-- strings
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" TEXT NOT NULL DEFAULT 'pending';
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- oddstrings
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" TEXT NOT NULL DEFAULT 'wartend';
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- integers
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 10;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- bigintegers
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 1;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- where
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- order
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- deletedone
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");

-- another claims table
CREATE TABLE IF NOT EXISTS "ops"."claims" (token INTEGER PRIMARY KEY, source TEXT NOT NULL, owner TEXT NOT NULL, row_keys TEXT NOT NULL, mode INTEGER NOT NULL, alone INTEGER NOT NULL, lease_ms INTEGER NOT NULL, since DATETIME NOT NULL, until DATETIME NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" DATETIME;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt");
