// Package coded has errors with another HTTP status than that of their kind.
package coded

// Error is an error with a status of its own.
type Error struct {
	Err    error
	Status int
	Unread bool // the body of the request is not read to its end, so no request follows on the connection
}

// Error is the text of the error alone.
func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns the error, which has a kind.
func (e Error) Unwrap() error { return e.Err }
