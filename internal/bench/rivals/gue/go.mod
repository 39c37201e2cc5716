module github.com/sendonce/sendonce/internal/bench/rivals/gue

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.12.0
	github.com/sendonce/sendonce/internal/bench v0.0.0-00010101000000-000000000000
	github.com/vgarvardt/gue/v5 v5.8.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/oklog/ulid/v2 v2.1.0 // indirect
	github.com/vgarvardt/backoff v1.0.0 // indirect
	go.opentelemetry.io/otel v1.35.0 // indirect
	go.opentelemetry.io/otel/metric v1.35.0 // indirect
	go.opentelemetry.io/otel/trace v1.35.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/sendonce/sendonce => ../../../..
	github.com/sendonce/sendonce/internal/bench => ../..
)
