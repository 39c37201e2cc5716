#!/usr/bin/env bash
# Makes one local Docker image with PostgreSQL, MariaDB and Redis from the
# distribution's packages, for machines where no image can be pulled. It takes
# the place of the official images in the tests: the environment variable
# SENDONCE_TEST_SERVER chooses the server, arguments are the server's own.
# It needs root, a Debian machine, mmdebstrap and a Docker daemon; it starts
# nothing itself, and does nothing where the image exists.
set -euo pipefail

tag=$(sha256sum "$0" | cut -c1-12)
image=${SENDONCE_DOCKER_IMAGE:-sendonce-test-servers:$tag}

if docker image inspect "$image" >/dev/null 2>&1; then
	echo "$image"
	exit 0
fi

# The mirror and the release are those of the machine's own sources.
. /etc/os-release
mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
	sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' | head -n 1 || true)
[ -n "$mirror" ] || { echo "docker-image: no mirror in the machine's apt sources" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/entry" <<'ENTRY'
#!/bin/sh
# Runs one of the servers as its own user, in the foreground.
set -e
drop() { user=$1; shift; exec setpriv --reuid="$user" --regid="$user" --init-groups "$@"; }
case $SENDONCE_TEST_SERVER in
postgres)
	mkdir -p /run/postgresql && chown postgres:postgres /run/postgresql
	drop postgres /usr/lib/postgresql/server/bin/postgres -D /srv/postgres -c 'listen_addresses=*' "$@" ;;
mariadb)
	mkdir -p /run/mysqld && chown mysql:mysql /run/mysqld
	drop mysql mariadbd --no-defaults --datadir=/srv/mariadb --bind-address=0.0.0.0 --init-file=/srv/mariadb.sql "$@" ;;
redis)
	drop redis redis-server --bind 0.0.0.0 --dir /srv/redis "$@" ;;
*)
	echo "SENDONCE_TEST_SERVER must be postgres, mariadb or redis" >&2
	exit 2 ;;
esac
ENTRY

cat >"$work/hook" <<'HOOK'
#!/bin/sh
# Puts the entry point into the image and makes the data folders, so that a
# container answers at once.
set -e
root=$1
install -m 755 "$(dirname "$0")/entry" "$root/entry"
chroot "$root" sh -e <<'INSIDE'
ln -s "$(ls -d /usr/lib/postgresql/*/ | tail -n 1)" /usr/lib/postgresql/server
mkdir -p /srv/postgres /srv/mariadb /srv/redis
chown postgres:postgres /srv/postgres
chown mysql:mysql /srv/mariadb
chown redis:redis /srv/redis
setpriv --reuid=postgres --regid=postgres --init-groups /usr/lib/postgresql/server/bin/initdb \
	-D /srv/postgres -U postgres --auth=trust -E UTF8 --locale=C.UTF-8 >/dev/null
echo 'host all all all trust' >>/srv/postgres/pg_hba.conf
setpriv --reuid=mysql --regid=mysql --init-groups mariadb-install-db --no-defaults --datadir=/srv/mariadb \
	--auth-root-authentication-method=normal --skip-test-db --skip-name-resolve >/dev/null
cat >/srv/mariadb.sql <<'SQL'
CREATE USER IF NOT EXISTS 'root'@'%';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION;
SQL
rm -rf /var/lib/postgresql/*/main /var/lib/mysql /var/cache/apt/* /usr/share/doc/* /usr/share/man/*
INSIDE
HOOK
chmod +x "$work/entry" "$work/hook"

echo "docker-image: building $image (about a minute)" >&2
mmdebstrap --quiet --variant=minbase --include=postgresql,redis-server,mariadb-server \
	--customize-hook="$work/hook" "$VERSION_CODENAME" - "$mirror" |
	docker import --change 'ENTRYPOINT ["/entry"]' - "$image" >/dev/null
docker image inspect "$image" >/dev/null
echo "$image"
