package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/redisclaim"
)

// request is what waits in the queue.
type request struct {
	Customer string
	Fails    bool // at its first try
}

// service is one instance. All share one queue, and take requests from all.
type service struct {
	queue *redisclaim.Queue[request]
	book  *book
	added chan struct{} // a request was put into the queue here
}

// post takes a request. Its place in the order is that of Add, whichever instance
// calls it; the invoice is made afterwards, by any of them.
//
//	POST /customers/{customer}/invoices
//	202 Accepted
//	Location: /invoices/{id}
func (s *service) post(w http.ResponseWriter, r *http.Request) {
	customer := r.PathValue("customer")
	item := redisclaim.Item[request]{Key: customer, Value: request{Customer: customer, Fails: r.FormValue("fails") != ""}}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		// Who got no answer may ask again, also another instance.
		item.Unique, item.UniqueFor = customer+" "+key, 10*time.Minute
	}
	id, err := s.queue.Add(r.Context(), item)
	var taken *redisclaim.TakenError
	switch {
	case errors.As(err, &taken):
		id = taken.ID // the same request was accepted before
	case err != nil:
		http.Error(w, "it is not known whether the request was accepted: ask again, with the same Idempotency-Key", http.StatusServiceUnavailable)
		return
	}
	select {
	case s.added <- struct{}{}:
	default:
	}
	w.Header().Set("Location", "/invoices/"+id)
	w.WriteHeader(http.StatusAccepted)
}

// get says what became of a request.
//
//	GET /invoices/{id}
//	200 OK: it is made, and this is its number
//	202 Accepted: it waits
func (s *service) get(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	// First the queue: between the two an invoice may be made.
	waits, err := s.queue.Alive(r.Context(), id)
	var n int
	var found bool
	if err == nil {
		n, found, err = s.book.number(r.Context(), id)
	}
	switch {
	case err != nil:
		http.Error(w, "no answer from Redis", http.StatusServiceUnavailable)
	case found:
		fmt.Fprintln(w, n)
	case waits:
		w.WriteHeader(http.StatusAccepted)
	default: // never asked for, or given up: see Queue.Dead
		http.NotFound(w, r)
	}
}

// serve runs one instance until ctx ends: an HTTP server that puts requests into the
// queue, and a Dispatcher that makes invoices of them.
func serve(ctx context.Context, rdb *redis.Client, o options) error {
	listener, err := net.Listen("tcp", o.serve)
	if err != nil {
		return fmt.Errorf("%w: give another address with -serve", err)
	}
	defer listener.Close()
	instance, log := listener.Addr().String(), logger()
	queue, err := redisclaim.New[request](ctx, rdb, o.name, &redisclaim.Options{Logger: log})
	if err != nil {
		return err
	}
	s := &service{queue: queue, book: newBook(rdb, o.name), added: make(chan struct{}, 1)}
	create := func(ctx context.Context, it sendonce.Item[request]) error {
		return s.book.create(ctx, instance, o.work, it)
	}
	d, err := sendonce.New[request](queue, sendonce.SenderFunc[request](create), sendonce.Config{
		Owner: instance,
		Wake:  s.added, PollInterval: 100 * time.Millisecond, // what others add is found by polling
		SendTimeout: time.Second,
		Lease:       5 * time.Second, // short, so that you need not wait long for the work of one that was killed
		Backoff:     func(int) time.Duration { return 50 * time.Millisecond },
		Logger:      log,
	})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /customers/{customer}/invoices", s.post)
	mux.HandleFunc("GET /invoices/{id}", s.get)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		ended <- server.Serve(listener)
		stop()
	}()
	fmt.Printf(readyLine, instance)
	err = d.Run(ctx) // until SIGTERM: it ends what it has begun

	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(closing))
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
