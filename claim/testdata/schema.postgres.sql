-- plain
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- full
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
ALTER TABLE "receivers" ADD COLUMN "done_at" timestamptz;
ALTER TABLE "receivers" ADD COLUMN "last_error" text;
ALTER TABLE "receivers" ADD COLUMN "doubt_since" timestamptz;
ALTER TABLE "receivers" ADD COLUMN "generation" integer NOT NULL DEFAULT 0;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- schema
CREATE TABLE IF NOT EXISTS "app"."sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "app"."receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "app"."receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "app"."receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "app"."receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "app"."receivers" SET (fillfactor = 50);

-- dotted
CREATE TABLE IF NOT EXISTS "app"."sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "app"."mail.receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "app"."mail.receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."mail.receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "app"."mail.receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "mail.receivers_sendonce_due" ON "app"."mail.receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "app"."mail.receivers" SET (fillfactor = 50);

-- reserved
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "order" ADD COLUMN "case" smallint NOT NULL DEFAULT 0;
ALTER TABLE "order" ADD COLUMN "group" bigint NOT NULL DEFAULT 0;
ALTER TABLE "order" ADD COLUMN "limit" integer NOT NULL DEFAULT 0;
ALTER TABLE "order" ADD COLUMN "when" timestamptz;
CREATE INDEX "order_sendonce_due" ON "order" ("when") WHERE "when" IS NOT NULL;
ALTER TABLE "order" SET (fillfactor = 50);

-- mixedcase
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "MailQueue" ADD COLUMN "State" smallint NOT NULL DEFAULT 0;
ALTER TABLE "MailQueue" ADD COLUMN "Token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "MailQueue" ADD COLUMN "Tries" integer NOT NULL DEFAULT 0;
ALTER TABLE "MailQueue" ADD COLUMN "NextTry" timestamptz;
ALTER TABLE "MailQueue" ADD COLUMN "SentAt" timestamptz;
CREATE INDEX "MailQueue_sendonce_due" ON "MailQueue" ("NextTry") WHERE "NextTry" IS NOT NULL;
ALTER TABLE "MailQueue" SET (fillfactor = 50);

-- hostile
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "s`t" smallint NOT NULL DEFAULT 0;
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "t:oken" bigint NOT NULL DEFAULT 0;
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "att?empts" integer NOT NULL DEFAULT 0;
ALTER TABLE "a""b`c; DROP TABLE x --" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "a""b`c; DROP TABLE x --_sendonce_due" ON "a""b`c; DROP TABLE x --" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "a""b`c; DROP TABLE x --" SET (fillfactor = 50);

-- strings
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" varchar(20) NOT NULL DEFAULT 'pending';
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- oddstrings
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" varchar(20) NOT NULL DEFAULT 'wartend';
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- integers
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 10;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- bigintegers
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" integer NOT NULL DEFAULT 1;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- where
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- order
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- deletedone
CREATE TABLE IF NOT EXISTS "sendonce_claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);

-- another claims table
CREATE TABLE IF NOT EXISTS "ops"."claims" (token bigint PRIMARY KEY, source varchar(260) NOT NULL, owner varchar(250) NOT NULL, row_keys text NOT NULL, mode smallint NOT NULL, alone smallint NOT NULL, lease_ms bigint NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL);
ALTER TABLE "receivers" ADD COLUMN "status" smallint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "token" bigint NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "attempts" integer NOT NULL DEFAULT 0;
ALTER TABLE "receivers" ADD COLUMN "next_attempt" timestamptz;
CREATE INDEX "receivers_sendonce_due" ON "receivers" ("next_attempt") WHERE "next_attempt" IS NOT NULL;
ALTER TABLE "receivers" SET (fillfactor = 50);
