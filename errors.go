package sendonce

import "errors"

var (
	// ErrLost is the cause of a send's context that ended because its claim
	// could not be confirmed in time, or was taken away.
	ErrLost = errors.New("sendonce: the claim is lost")

	// ErrStopping is the cause of a send's context that ended because the
	// Dispatcher is stopping and Config.StopTimeout is over.
	ErrStopping = errors.New("sendonce: the dispatcher is stopping")

	// ErrDelivery is returned by Claim when live claims of the same table run
	// under the other Delivery.
	ErrDelivery = errors.New("sendonce: the table is being sent under another delivery mode")
)

// IsTransient reports whether err, or an error it wraps, says of itself that the
// same call is expected to succeed when repeated at once: a deadlock, a
// serialization failure, a lock wait, a busy file. Such an error has a method
// Transient() bool.
func IsTransient(err error) bool {
	var t interface{ Transient() bool }
	return errors.As(err, &t) && t.Transient()
}

// IsFatal reports whether err, or an error it wraps, says of itself that no
// repeat can help until somebody changes the configuration: a wrong password, a
// missing table. Such an error has a method Fatal() bool. Run and Drain return
// it if it is the answer to their first claim; later on they keep trying.
func IsFatal(err error) bool {
	var f interface{ Fatal() bool }
	return errors.As(err, &f) && f.Fatal()
}
